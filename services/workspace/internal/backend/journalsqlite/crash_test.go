package journalsqlite_test

func crashChild() bool { return false }
