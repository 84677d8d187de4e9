//go:build cgo

package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

const hostConfig = `{"region_cluster":"region","table_pages":16,"before_rules":"deny","span_tags":true,"rules":{"rules":[
	{"name":"exact","match":{"path":"/exact"},"key":[{"header":"x-user"}],"limit":"100/1d","algorithm":"fixed_window","consistency":"exact","on_failure":"deny"},
	{"name":"leased","match":{"path":"/leased"},"key":[{"header":"x-user"}],"limit":"100/1d","algorithm":"fixed_window"},
	{"name":"local","match":{"path":"/local"},"key":[{"header":"x-user"}],"limit":"100/1s","scope":"pop"},
	{"name":"slot","match":{"path":"/slot"},"key":[],"limit":4,"algorithm":"concurrency"},
	{"name":"all","key":["client_ip"],"limit":"1000000/1d","algorithm":"fixed_window"}]}}`

// The race detector finds nothing in the module under a host in C, whose threads begin, finish and end requests while
// configurations come and go and the region answers late, badly or not. Envoy cannot be that host: the detector needs
// addresses that its process does not have free.
func TestRacesUnderAHost(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the module again: runs in make test-long")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "host")
	for _, argv := range [][]string{
		{"go", "build", "-race", "-buildmode=c-archive", "-o", filepath.Join(dir, "weir.a"), "."},
		{"cc", "-D_GNU_SOURCE", "-g", "-no-pie", "-I.", "-o", program, "testdata/host.c", filepath.Join(dir, "weir.a"), "-lpthread"},
	} {
		proc.Run(t, exec.CommandContext(t.Context(), argv[0], argv[1:]...))
	}
	host := exec.CommandContext(t.Context(), program, "20", hostConfig)
	var log bytes.Buffer
	host.Stderr, host.Env = &log, append(host.Environ(), "GORACE=halt_on_error=1")
	calls, answers := fatal.Get(host.StdoutPipe())(t), fatal.Get(host.StdinPipe())(t)
	fatal.If(t, host.Start())
	answerAll(calls, answers)
	if err := host.Wait(); err != nil {
		t.Errorf("the host ends with %v:\n%s", err, log.String())
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	t.Log(lines[len(lines)-1])
}

// answerAll answers calls until the host ends, as a region does that is slow, fails or answers with garbage now and then.
func answerAll(calls io.Reader, answers io.Writer) {
	var late [][]byte
	for {
		var head struct {
			ID          uint64
			Rules, Size uint32
		}
		if binary.Read(calls, binary.LittleEndian, &head) != nil {
			return
		}
		body := make([]byte, head.Size)
		if _, err := io.ReadFull(calls, body); err != nil {
			return
		}
		status, answer := uint32(200), answerTo(head.Rules > 0, body)
		switch rand.IntN(20) {
		case 0:
			status = 503
		case 1:
			status = 403
		case 2:
			answer = []byte("\xff\xff<html>")
		}
		frame := binary.LittleEndian.AppendUint64(nil, head.ID)
		frame = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(frame, status), uint32(len(answer)))
		if late = append(late, append(frame, answer...)); rand.IntN(4) > 0 {
			for _, frame := range late {
				_, _ = answers.Write(frame) // the host may have ended
			}
			late = nil
		}
	}
}

func answerTo(rules bool, body []byte) []byte {
	if rules {
		b, _ := proto.Marshal(&quotav1.RulesResponse{Protocol: 1, RulesVersion: "same"}) // it never fails
		return b
	}
	var q wire.Request
	if q.Decode(body) != nil {
		return nil
	}
	a := wire.Response{Protocol: 1, Seq: q.Seq, RulesVersion: q.RulesVersion, Holders: 1}
	for i := range q.Wants {
		g := lease.Grant{Status: lease.OK, Granted: q.Wants[i].Want.Want, TTL: 1000, Limit: 100, Remaining: 50, Reset: 60_000}
		if rand.IntN(4) == 0 {
			g = lease.Grant{Status: lease.Denied, Limit: 100, RetryAfter: 300, AskAfter: 100, Reset: 300}
		}
		a.Grants = append(a.Grants, wire.Grant{Grant: g})
	}
	return a.Append(nil)
}
