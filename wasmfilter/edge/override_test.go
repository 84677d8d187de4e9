package edge

// Rules with the override gold alone, and with others around it.
