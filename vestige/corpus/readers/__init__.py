"""One file a format. A reader turns a path into sentences and says at which level its labels are."""
