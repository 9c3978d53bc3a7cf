"""What was tried and how long it took: trials in a database that a team may share."""
