"""What is known of the engines of a fleet: are they well, how loaded, how fast, and who may be chosen?"""
