"""Values randomised on devices: what a claim says, its exact probabilities, the forms of reports. Pure, standard library only."""
