//! Memory that processes share, and what they say to each other in it: the only unsafe code.
