"""Tables of molecules: read, understood, checked, split and written."""
