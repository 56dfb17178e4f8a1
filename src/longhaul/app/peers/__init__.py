"""Other trainers and emulators, as they are measured beside ours."""
