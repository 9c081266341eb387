package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/observe/reader"
)

var errInterrupted = errors.New("interrupted; everything is cleaned up")

func newDemo() *cobra.Command {
	var logFile, cloudName, testCloud string
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch three nested layers of resources being created, changed and deleted",
		Long: "Runs 'espalier up' with its data in a temporary directory and a simulated cloud;\n" +
			"applies an example of three nested layers, the lowest of which are resources of that\n" +
			"cloud; and shows how they are created, how a change in the cloud arrives at the top,\n" +
			"how a change by hand is corrected, and how 'espalier why' explains a deletion that\n" +
			"somebody blocks. It leaves nothing behind, but with --keep runs on until Ctrl-C.\n\n" +
			"With --cloud aws, the resources are AWS's, in a test cloud with AWS's APIs on loopback;\n" +
			"'make demo CLOUD=aws' installs and builds that.",
		Example: "  espalier demo\n" +
			"  espalier demo --keep   # and go on with kubectl and espalier in another terminal",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clouds := map[string]demoCloud{"sandbox": &sandboxDemo{}, "aws": &awsDemo{program: testCloud}}
			if clouds[cloudName] == nil {
				return &usageError{fmt.Errorf("--cloud can be sandbox or aws, not %q", cloudName)}
			}
			if cloudName == "aws" {
				if err := requireAWS(); err != nil {
					return err
				}
			}
			log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
			if err != nil {
				return fmt.Errorf("open the log: %w", err)
			}
			defer log.Close()
			return (&demo{cmd: cmd, cloud: clouds[cloudName], log: log, keep: keep}).run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the control plane running at the end, until Ctrl-C")
	cmd.Flags().StringVar(&cloudName, "cloud", "sandbox", "the cloud of the resources: sandbox or aws")
	cmd.Flags().StringVar(&testCloud, "testcloud", "", "with --cloud aws, the program of the test cloud; by default aws-testcloud beside this one")
	cmd.Flags().StringVar(&logFile, "log", os.DevNull, "file for the log of the control plane and the controllers")
	return cmd
}

// demoCloud is the cloud of the demo's resources.
type demoCloud interface {
	// start starts the cloud, and returns the flags of 'espalier up' that use it, and the objects that its provider needs.
	start(ctx context.Context, d *demo, up *upFlags) (flags []string, objects []*unstructured.Unstructured, err error)
	// folder has the manifests.
	folder() string
	// scale changes the cluster in the cloud behind the back of the controllers, and shows what comes of it.
	scale(ctx context.Context, d *demo) (outcome string, err error)
	// network is the kind of the example's network in the cloud, and its name in commands.
	network() (kind schema.GroupKind, name string)
}

// demo runs the commands of a user, one after the other.
type demo struct {
	cmd   *cobra.Command
	cloud demoCloud
	log   io.Writer
	keep  bool

	dir     string // of the data, removed at the end
	flags   instanceFlags
	cluster *reader.Cluster
	objects []*unstructured.Unstructured // that the provider needs
	count   int                          // the objects of the tree
	closers []func()                     // clean up, the last one first
}

// demoLimit bounds the demo, without the cleanup.
const demoLimit = 5 * time.Minute

// run runs the steps, and cleans up before it returns.
func (d *demo) run(ctx context.Context) error {
	out, begun := d.cmd.OutOrStdout(), time.Now()
	steps := []struct {
		title string
		run   func(context.Context) (outcome string, err error)
	}{
		{"Start an API server with etcd, and the controllers", d.up},
		{"Apply three definitions, each made of the ones below", d.define},
		{"Create the three layers", d.create},
		{"Scale the cluster behind our back", func(ctx context.Context) (string, error) { return d.cloud.scale(ctx, d) }},
		{"Overwrite a field that a definition sets", d.overwrite},
		{"Delete the top while somebody holds the network", d.deleteHeld},
		{"Create it again", d.create},
	}
	defer func() {
		for len(d.closers) > 0 {
			last := len(d.closers) - 1
			d.closers[last]()
			d.closers = d.closers[:last]
		}
	}()
	limited, stop := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the demo is not done within %s", demoLimit))
	defer stop()
	for i, step := range steps {
		d.printLine("\n%s %s", faint.Render(fmt.Sprintf("[%d/%d]", i+1, len(steps))), bold.Render(step.title))
		at := time.Now()
		outcome, err := step.run(limited)
		switch {
		case ctx.Err() != nil || errors.Is(err, errInterrupted):
			return errInterrupted
		case err != nil:
			return fmt.Errorf("%s: %w", step.title, err)
		}
		d.printLine("%s %s %s", ready.Render("done:"), outcome, faint.Render(fmt.Sprintf("(%.1f s)", time.Since(at).Seconds())))
	}
	took := time.Since(begun).Seconds()
	if !d.keep {
		fmt.Fprintf(prose(out), "\nDone in %.1f s; nothing is left behind. 'espalier demo --keep' keeps all of this running.\n", took)
		return nil
	}
	fmt.Fprintf(prose(out), "\nDone in %.1f s. The control plane runs until you press Ctrl-C. In another terminal:\n", took)
	d.printLine("\n  export KUBECONFIG=%s\n  espalier tree %s %s\n  espalier ui              # the same in a browser\n"+
		"  kubectl edit %[2]s %[3]s", d.flags.cluster.kubeconfig, demoKind, demoName)
	<-ctx.Done()
	return nil
}

// printLine prints a line, in colours on a terminal.
func (d *demo) printLine(format string, args ...any) {
	to := &colorprofile.Writer{Forward: d.cmd.OutOrStdout(), Profile: colorprofile.NoTTY}
	if screen, ok := terminal(d.cmd.OutOrStdout()); ok {
		to = colorprofile.NewWriter(screen, colourEnvironment())
	}
	fmt.Fprintf(to, format+"\n", args...)
}

// addCleanup adds a function that cleans up what has just been set up.
func (d *demo) addCleanup(cleanup func()) { d.closers = append(d.closers, cleanup) }
