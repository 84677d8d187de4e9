package e2e

import (
	"testing"

	"github.com/weirlimit/weir/test/kit/stack"
)

var twoPoPsRules = "rules:\n" + limitRules() + floodRules + clientIPRules + headerRules + modeRules

// Scenarios in which nothing fails share two PoPs and one region; each has rules
// of its own.
func TestTwoPoPsOneRegion(t *testing.T) {
	s := stack.Start(t, stack.Config{Rules: twoPoPsRules})
	awaitRules(t, s)
	t.Run("headers for a client", func(t *testing.T) { clientHeaders(t, s) })
	t.Run("a metric and a line for an operator", func(t *testing.T) { operatorSees(t, s) })
	t.Run("a forged X-Forwarded-For gains nothing", func(t *testing.T) { forgedForwardedForGainsNothing(t, s) })
	t.Run("requests out of the ordinary", func(t *testing.T) { requestsOutOfTheOrdinary(t, s) })
	t.Run("modes", func(t *testing.T) { modes(t, s) })
	t.Run("limits hold exactly", func(t *testing.T) { limitsHoldExactly(t, s) })
	t.Run("token buckets hold", func(t *testing.T) { tokenBucketHolds(t, s) })
	t.Run("a flood makes few calls", func(t *testing.T) { floodMakesFewCalls(t, s) })
}
