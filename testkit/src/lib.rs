//! Makes the ELF objects, layers and images that the tests and `testdata/images` are built from.
