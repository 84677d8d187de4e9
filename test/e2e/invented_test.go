package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// holdersSeen makes one call of a holder, and returns how many holders the region answers.
func holdersSeen(t *testing.T, client quotapbconnect.QuotaServiceClient, id string, seq uint64) (int, error) {
	t.Helper()
	r, err := client.Acquire(t.Context(), connect.NewRequest(&quotapb.AcquireRequest{Protocol: 1, Holder: []byte(id), Seq: seq}))
	if err != nil {
		return 0, err
	}
	return int(r.Msg.GetHolders()), nil
}

// Somebody at one address makes up 2,000 PoPs. Those elsewhere keep their shares but for so many, and
// new ones find room.
func TestInventedPoPs(t *testing.T) {
	t.Parallel()
	r := region.New(t, region.Config{Dir: proc.LogDir(t), Rules: liarRules, Flags: []string{"--state", "off", "--max-holders", "1000"}})
	r.Start()
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}
	defer transport.CloseIdleConnections()
	liar := quotapbconnect.NewQuotaServiceClient(&http.Client{Transport: transport, Timeout: 30 * time.Second}, "http://"+r.Addr)
	honest := quotapbconnect.NewQuotaServiceClient(r.HTTP, "http://"+r.Addr)
	if n, err := holdersSeen(t, honest, "an honest holder", 1); n != 1 || err != nil {
		t.Fatalf("%d holders, %v", n, err)
	}
	made := 0
	for n := range 2000 {
		_, err := holdersSeen(t, liar, fmt.Sprintf("made up %08d", n), 1)
		if err == nil {
			made++
		} else if !strings.Contains(err.Error(), "max_holders_per_address") {
			t.Fatal(err)
		}
	}
	if made < 128 {
		t.Errorf("%d holders of one address are accepted, want 128", made)
	}
	if n, err := holdersSeen(t, honest, "an honest holder", 2); n > 129 || err != nil {
		t.Errorf("the honest holder shares with %d, %v; want 129", n, err)
	}
	if _, err := holdersSeen(t, honest, "a second one .. ", 1); err != nil {
		t.Errorf("a new holder at another address: %v", err)
	}
	if refused := r.Metrics()["weir_holders_refused_total"]; refused != float64(2000-made) || refused == 0 {
		t.Errorf("%v calls are counted as refused, want %d", refused, 2000-made)
	}
}
