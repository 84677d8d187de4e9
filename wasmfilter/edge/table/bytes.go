package table

// hostBytes is what the host keeps of an entry of its map beside the value, at most:
// its key and version, a node of the map, and what the allocator rounds up.
const hostBytes = 256

// Bytes is the most memory that a table of so many pages takes in the host, with each
// page full of the longest entries. There is a second one of the same size where there
// are shadow rules.
func Bytes(pages int) int { return pages * (maxPage + hostBytes) }

// PoolBytes is the same for the slots of concurrency limits, with so many workers.
func PoolBytes(workers int) int {
	perKey := keyBytes + min(workers, poolMembers)*memberBytes
	return PoolPages * (poolHeader + poolMost*perKey + hostBytes)
}
