package tier

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Hangups returns a channel of its own for each caller, which receives each SIGHUP.
func Hangups() <-chan os.Signal {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGHUP)
	return received
}

// UntilSignal returns a context that ends at the first SIGINT or SIGTERM. A second
// signal ends the process at once: it is for operators who cannot wait for the drain.
func UntilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-received
		signal.Stop(received)
		cancel()
	}()
	return ctx
}
