// Package dropped drops errors, with excuses and without.
package dropped

import "os"

func Drop(name string) {
	os.Remove(name) // want "unchecked error"
	_ = os.Remove(name)

	//lint:ignore errcheck the file may be gone already
	os.Remove(name)
	os.Remove(name) //lint:ignore SA1000,errcheck the file may be gone already

	//lint:ignore SA1000 an excuse for another analyzer
	os.Remove(name) // want "unchecked error"

	/* want "ignores errcheck without a reason" */ //lint:ignore errcheck
	os.Remove(name)
}
