/* A library with a variable of each thread, at a fixed place where it is compiled with -ftls-model=initial-exec. */
__thread int own;

int *own_place(void)
{
  return &own;
}
