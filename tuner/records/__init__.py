"""Tuning records: trials and their times, in a database that a team may share."""
