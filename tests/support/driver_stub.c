/* A driver without a GPU, for programs that ask for the driver's version before they open CUPTI. */
int cuDriverGetVersion(int *version) {
    *version = 13020;
    return 0;
}
