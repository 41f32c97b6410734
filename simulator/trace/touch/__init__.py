"""What CTAs do to the memory that they were given: footprints, class by class, and how they go on."""
