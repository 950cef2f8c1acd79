// Package storetest is the suite of the journal's store port: it says in tests what [journal.Store] says in words. A backend passes it whole:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(testkit.Wrap(t), func(tb testing.TB, now func() time.Time) journal.Store { … })
//	}
package storetest
