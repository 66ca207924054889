"""Why did it die: supervise a run, read what it left behind, and name the cause or the suspects."""
