package redisstore

import (
	"strings"
	"sync"
	"testing"
)

// More members are believed at once, fewer only after so many replies in a row.
func TestMemberCount(t *testing.T) {
	const missed = -1
	for name, c := range map[string]struct{ replies, want []int64 }{
		"they come":                         {[]int64{1, 2, 5}, []int64{1, 2, 5}},
		"one leaves":                        {[]int64{3, 2, 2, 2, 2, 2}, []int64{3, 3, 3, 3, 3, 2}},
		"what was lost comes back":          {[]int64{3, missed, missed, 1, 2, 3, 2, 2, 2, 2, 2}, []int64{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2}},
		"lost again, nobody notices":        {[]int64{3, 1, 2, 1, 3, 3}, []int64{3, 3, 3, 3, 3, 3}},
		"lost again before all have spoken": {[]int64{3, 1, 2, missed, 1, 2, 2, 2, 2}, []int64{3, 3, 3, 3, 3, 3, 3, 3, 2}},
		"fewer and fewer":                   {[]int64{9, 5, 4, 3, 2, 3}, []int64{9, 9, 9, 9, 9, 5}},
		"one leaves, and then all is lost":  {[]int64{3, 2, 2, 2, 1, 2, 2}, []int64{3, 3, 3, 3, 3, 2, 2}},
		"never":                             {[]int64{missed, missed, 1}, []int64{0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			count, got := newMemberCount(replicaReplies), int64(0)
			for i, n := range c.replies {
				if n == missed {
					count.missed()
				} else {
					got = count.counted(n)
				}
				if got != c.want[i] {
					t.Fatalf("reply %d, %d: %d members, want %d", i, n, got, c.want[i])
				}
			}
		})
	}
}

// notes is a log in memory.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}
