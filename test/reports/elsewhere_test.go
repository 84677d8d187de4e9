package reports

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// elsewhere are the tests of reports that need other programs, by the number of the report, with their directories.
var elsewhere = map[int]string{
	1:  "test/e2e TestBeside",
	2:  "test/e2e TestBeside",
	4:  "test/e2e TestBeside",
	5:  "test/e2e TestBeside",
	6:  "test/e2e TestReports",
	7:  "test/e2e TestReports",
	11: "test/e2e TestReports",
	12: "wasmfilter/edge/shedding TestIdleStreams",
	15: "test/e2e TestReports",
	16: "test/e2e TestReportsOfUpdates",
	17: "test/e2e TestReportsOfUpdates",
	23: "internal/redis/script TestClocksApart",
	26: "internal/envoyrls TestAnyBytes",
	28: "internal/envoyrls TestLimitsJudgeOneCount",
	30: "internal/envoyrls/descriptor TestMatch",
	31: "internal/redis/redisstore TestReplacedBehindAProxy",
	32: "internal/redis/redisstore TestConnectionsToADemotedServer",
	33: "internal/redis/redisstore TestLifetimes",
	34: "internal/redis/redisstore TestCluster",
	35: "internal/redis/redisstore TestEachRightIsNeeded",
	36: "internal/redis/redisstore TestScriptsFlushed",
	37: "internal/redis/redisstore TestForeignNode",
	41: "wasmfilter/filter TestPluginsShareNothing",
	42: "test/e2e TestOddKey",
	43: "internal/consul TestOldAnswers",
	44: "internal/telemetry TestCollectorNeverAnswers",
	45: "test/install TestReplicasUnderAutoscaling",
}

// Each of these tests is where the table has it.
func TestElsewhere(t *testing.T) {
	for _, place := range elsewhere {
		dir, name, _ := strings.Cut(place, " ")
		proc.HasTest(t, dir, name)
	}
}
