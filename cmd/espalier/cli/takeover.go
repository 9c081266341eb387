package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/migration/takeover"
	"github.com/espalier-dev/espalier/internal/migration/takeover/migrate"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// takeoverFlags are the flags of takeover.
type takeoverFlags struct {
	configuration
	where  clusterFlags
	plan   bool
	backTo string
	output outputFlag
	wait   time.Duration
}

func newTakeover() *cobra.Command {
	var flags takeoverFlags
	cmd := &cobra.Command{
		Use:   "takeover",
		Short: "Show what taking over from Crossplane or kro would change, or give objects back to them",
		Long: "With --plan, shows what 'espalier run' would change of each object that Crossplane or kro\n" +
			"has created, and stores nothing: the controllers reconcile the cluster once with\n" +
			"dry-run requests. The takeover itself is 'espalier run'; docs/migration.md has all\n" +
			"steps.\n\n" +
			"With --back-to, gives the objects of a dialect back to the engine that served it before:\n" +
			"field managers, owner references, labels and annotations become what that engine needs\n" +
			"to continue. The controllers must be stopped. If it is interrupted, run it again.",
		Example: "  espalier takeover --plan\n" +
			"  espalier takeover --back-to crossplane --plan\n" +
			"  espalier takeover --back-to crossplane",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			config, err := flags.where.config()
			if err != nil {
				return err
			}
			config.WarningHandler = rest.NoWarnings{} // they are for the authors of objects
			if flags.backTo != "" {
				return flags.release(cmd, config)
			}
			return flags.printPlan(cmd, config)
		},
	}
	flags.where.add(cmd)
	flags.addFunctions(flags.add(cmd, simulatedDefaults()))
	cmd.Flags().BoolVar(&flags.plan, "plan", false, "show what would change, and write nothing")
	cmd.Flags().StringVar(&flags.backTo, "back-to", "", "give objects back to this engine: crossplane or kro")
	cmd.Flags().Var((*dialectFlag)(&flags.Dialects), "dialects", "dialects to take over; by default those whose definitions are installed")
	cmd.Flags().DurationVar(&flags.wait, "wait", 2*time.Minute, "timeout of the controllers' run for the plan")
	flags.output.add(cmd)
	return cmd
}

func (f *takeoverFlags) check(cmd *cobra.Command) error {
	switch engine := managedfields.Engine(f.backTo); {
	case f.backTo == "" && !f.plan:
		return &usageError{errors.New("takeover takes --plan or --back-to; to take over, run 'espalier run' as docs/migration.md says")}
	case f.backTo != "" && engine != managedfields.Crossplane && engine != managedfields.KRO:
		return &usageError{fmt.Errorf("--back-to can be %s or %s, not %q", managedfields.Crossplane, managedfields.KRO, f.backTo)}
	case f.wait <= 0:
		return &usageError{fmt.Errorf("--wait must be longer than 0, not %s", f.wait)}
	}
	return f.complete(cmd)
}

// printPlan prints what the controllers would change.
func (f *takeoverFlags) printPlan(cmd *cobra.Command, config *rest.Config) error {
	options, err := f.simulated(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	options.Config, options.Log = config, logr.Discard()
	if len(options.Dialects) == 0 {
		if options.Dialects, err = server.InstalledDialects(cmd.Context(), config); err != nil {
			return err
		}
	}
	if len(options.Dialects) == 0 {
		return errors.New("nothing to take over: the cluster has no definitions of Crossplane or kro")
	}
	found, err := migrate.PlanTakeover(cmd.Context(), options, f.wait)
	if err != nil {
		return err
	}
	plan := takeover.New(found.Objects, found.Failed)
	for _, note := range append(installNotes(found.Installs), found.Notes...) {
		plan.Notes = append(plan.Notes, note+".")
	}
	plan.Incomplete = found.Unsettled
	if found.Refused != nil {
		plan.Refused = found.Refused.Error()
	}
	if err := f.print(cmd.OutOrStdout(), plan); err != nil {
		return err
	}
	switch {
	case found.Refused != nil:
		return fmt.Errorf("the controllers would not start: %w", found.Refused)
	case found.Unsettled:
		return &codedError{code: exitUnfinished}
	case plan.Summary.Problems+plan.Summary.Deleted+plan.Summary.Replaced > 0:
		return &codedError{code: exitBlocked}
	}
	return nil
}

// installNotes lists what is missing in CustomResourceDefinitions that another program has
// installed.
func installNotes(steps []install.Step) []string {
	var out []string
	for _, s := range steps {
		if s.Action == install.Replace || s.Action == install.KeepForeign && len(s.MissingVersions)+len(s.MissingFields) > 0 {
			out = append(out, "CustomResourceDefinition "+s.Wanted.GetName()+": "+installDetail(s))
		}
	}
	return out
}

// release returns the objects to the engine of --back-to.
func (f *takeoverFlags) release(cmd *cobra.Command, config *rest.Config) error {
	var objects []preview.Object
	err := migrate.Release(cmd.Context(), migrate.ReleaseOptions{
		Config: config, Engine: managedfields.Engine(f.backTo), DryRun: f.plan, Lease: manager.LeaseName(programName), Now: time.Now,
		Each: func(o preview.Object) { objects = append(objects, o) },
	})
	var running *migrate.RunningError
	if errors.As(err, &running) {
		return &codedError{exitBlocked, err.Error()}
	}
	plan := takeover.New(objects, nil)
	plan.BackTo, plan.Written = f.backTo, !f.plan
	if failed := f.print(cmd.OutOrStdout(), plan); err == nil {
		err = failed
	}
	return err
}

func (f *takeoverFlags) print(to io.Writer, plan takeover.Plan) error {
	return f.output.printText(to, plan, plan.Text(planWidthOf(to)))
}
