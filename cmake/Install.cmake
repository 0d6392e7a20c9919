# What `cmake --install` leaves: the binary, the public header, one static library, its pkg-config file, the man page.
