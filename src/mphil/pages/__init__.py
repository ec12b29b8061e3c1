"""Pictures and pages: numbers in, strings out. Nothing here trains, reads a dataset or imports torch."""
