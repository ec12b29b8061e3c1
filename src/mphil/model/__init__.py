"""A trained model: built from a table, kept in a bundle, asked, screened with, exported."""
