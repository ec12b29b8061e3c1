"""The lab: tables and figures as data, every cell a run that can be repeated, and reports drawn from their records."""
