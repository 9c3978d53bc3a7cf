"""Forms of operators on blocks of channels, for a matrix unit or an ALU."""
