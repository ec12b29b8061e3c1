"""Why a prediction is what it is: decisive atoms, ranked substructures, how faithful they are, and pages of them."""
