/* An object that is nothing but what it is linked with. */
int nothing_of_its_own;
