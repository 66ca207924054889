"""Why did it die: read what a run left behind, and name the cause, or what may have been it."""
