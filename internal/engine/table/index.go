package table

// index finds entries by hash: open addressing with linear probing. A cell is 0
// when empty, else the hash's upper 32 bits beside the entry's number plus one.
//
// Invariant: no cell between an entry's cell and where its hash would put it is
// empty; len(cells) is a power of two and at most three quarters full.
type index struct {
	cells []uint64
	used  int
}

const leastCells = 8

func (x *index) mask() uint64 { return uint64(len(x.cells) - 1) }

// cellOf makes the content of a cell.
func cellOf(hash uint64, at uint32) uint64 { return hash>>32<<32 | uint64(at) + 1 }

// at is the number of the entry that a used cell stands for.
func at(cell uint64) uint32 { return uint32(cell) - 1 }

// add notes that an entry, not yet in the index, has this hash. home answers the
// hash of an entry.
func (x *index) add(hash uint64, n uint32, home func(uint32) uint64) {
	if 4*(x.used+1) > 3*len(x.cells) {
		x.grow(home)
	}
	x.place(hash, n)
	x.used++
}

func (x *index) place(hash uint64, n uint32) {
	i := hash & x.mask()
	for x.cells[i] != 0 {
		i = (i + 1) & x.mask()
	}
	x.cells[i] = cellOf(hash, n)
}

func (x *index) grow(home func(uint32) uint64) {
	old := x.cells
	x.cells = make([]uint64, max(2*len(old), leastCells))
	for _, c := range old {
		if c != 0 {
			x.place(home(at(c)), at(c))
		}
	}
}

// remove forgets an entry of this hash. The cells behind it move up, so that no
// tombstones gather.
func (x *index) remove(hash uint64, n uint32, home func(uint32) uint64) {
	i, want := hash&x.mask(), cellOf(hash, n)
	for x.cells[i] != want {
		i = (i + 1) & x.mask()
	}
	x.used--
	for j := i; ; {
		j = (j + 1) & x.mask()
		c := x.cells[j]
		if c == 0 {
			break
		}
		// The cell at j may move to i unless its home lies behind i.
		if h := home(at(c)) & x.mask(); (j-h)&x.mask() >= (j-i)&x.mask() {
			x.cells[i] = c
			i = j
		}
	}
	x.cells[i] = 0
}
