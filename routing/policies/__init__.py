"""One file for each routing policy; the file's name is the policy's name in the config."""
