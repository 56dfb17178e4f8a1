"""Hard starts: places where episodes end are kept per stage and begun from again."""
