// Command testcloud runs the test cloud until it is interrupted: AWS's APIs on the loopback interface, without an
// account. It prints its endpoint when it answers.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/espalier-dev/espalier/providers/aws/testkit/awscloud"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcloud:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	listen := flag.String("listen", "127.0.0.1:4566", "address of the endpoint, on the loopback interface; port 0 for a free one")
	program := flag.String("program", "", "path of ministack; by default hack/testcloud.sh installs it")
	limit := flag.Duration("for", 0, "how long it runs at most; 0 for no limit")
	takes := flag.Duration("takes", 0, "how long each request of the Cloud Control API takes; what really takes minutes takes a second in the demo")
	stdin := flag.Bool("stdin", false, "stop when the standard input is closed")
	flag.Parse()

	if *stdin {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	cloud, err := awscloud.Run(ctx, awscloud.Options{Program: *program, Listen: *listen})
	if err != nil {
		return err
	}
	defer cloud.Stop()
	cloud.SetDuration("", "", *takes)
	// Its format is for scripts.
	fmt.Println("ready", cloud.Endpoint)

	var ended <-chan time.Time
	if *limit > 0 {
		ended = time.After(*limit)
	}
	select {
	case <-ctx.Done():
	case <-ended:
	case <-cloud.Exited():
		return fmt.Errorf("ministack ended; its output:\n%s", cloud.Output())
	}
	return nil
}
