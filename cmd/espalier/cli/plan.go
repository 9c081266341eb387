package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/diag/source"
	"github.com/espalier-dev/espalier/internal/simulation"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// planFlags are the flags of plan.
type planFlags struct {
	configuration
	where        clusterFlags
	namespace    string
	files        []string
	serverSide   bool
	fieldManager string
	output       outputFlag
	exitCode     bool
	against      string
	wait         time.Duration
	cacheDir     string
	registry     registryFlags
}

func newPlan() *cobra.Command {
	var flags planFlags
	cmd := &cobra.Command{
		Use:   "plan -f FILE...",
		Short: "Show what applying files would change, down to the objects of every instance",
		Long: "Shows what would be created, changed field by field, replaced, deleted, orphaned and refused\n" +
			"if the files were applied: definitions, compositions, instances or other objects, several at\n" +
			"once. Objects are listed in the order in which they would be written.\n\n" +
			"The controllers themselves run against the cluster, functions included, but every request that\n" +
			"writes is a dry run: the API server sets defaults and asks its admission webhooks, and nothing\n" +
			"is stored. A plan needs the permissions of the controllers.\n\n" +
			"Other programs do not act in a dry run: a node that waits until a new object is ready is listed\n" +
			"as not known yet. Functions are called, and can respond differently later. The kinds of the files\n" +
			"are validated by their schemas; webhooks for them are not called. Values from Secrets are hidden.\n\n" +
			"A package (an .xpkg file, or a Configuration, Function or Provider in a file) is planned with the\n" +
			"objects that it would install. It is read with the credentials of docker login.\n\n" +
			"With --against, the plan compares with the instances as a revision composes them, and not with what\n" +
			"exists. It then covers all waves of a rollout; without --against, the waves up to the first.\n\n" +
			"Exit codes: 0 if there are no problems, 3 if something is refused, 4 if the controllers were\n" +
			"still busy at the timeout; with --exit-code, 6 if something would change. 1 after a failure, 2\n" +
			"for invalid arguments.",
		Example: "  espalier plan -f platform/webapp.yaml\n" +
			"  espalier plan -f platform/ -f instances/ --exit-code\n" +
			"  espalier plan -f platform/webapp.yaml --against webapp-r00003\n" +
			"  espalier plan -f platform/ -o markdown > comment.md\n" +
			"  espalier plan -f platform.xpkg",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	flags.where.add(cmd)
	flags.addSimulated(cmd)
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil, "file or directory to plan, or - for the standard input; repeatable")
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "the namespace of objects that name none; by default the context's")
	cmd.Flags().Var((*dialectFlag)(&flags.Dialects), "dialects", "dialects to serve; by default those that 'espalier run' would serve")
	cmd.Flags().BoolVar(&flags.serverSide, "server-side", false,
		"plan new objects as 'kubectl apply --server-side' applies them; existing ones are applied as before")
	cmd.Flags().StringVar(&flags.fieldManager, "field-manager", "kubectl", "with --server-side, the field manager")
	flags.output.add(cmd, markdownOutput)
	cmd.Flags().StringVar(&flags.against, "against", "", "GraphRevision or CompositionRevision to compare with, instead of what exists")
	cmd.Flags().BoolVar(&flags.exitCode, "exit-code", false, "exit with 6 if something would change")
	cmd.Flags().DurationVar(&flags.wait, "wait", 2*time.Minute, "timeout of the controllers' run for the plan")
	cmd.Flags().StringVar(&flags.cacheDir, "cache-dir", "", "folder of the cache of packages; below the user's by default")
	flags.registry.add(cmd)
	_ = cmd.MarkFlagDirname("cache-dir")
	return cmd
}

func (f *planFlags) check(cmd *cobra.Command) error {
	switch {
	case len(f.files) == 0:
		return &usageError{errors.New("plan takes files: -f FILE")}
	case f.wait <= 0:
		return &usageError{fmt.Errorf("--wait must be longer than 0, not %s", f.wait)}
	}
	return f.complete(cmd)
}

func (f *planFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	packages, manifests := splitPackages(f.files)
	objects, err := appliedObjects(cmd, manifests)
	if err != nil {
		return err
	}
	packaged, err := f.packagedObjects(cmd, packages, objects)
	if err != nil {
		return err
	}
	objects = append(packaged, objects...)
	config, err := f.where.config()
	if err != nil {
		return err
	}
	config.WarningHandler = rest.NoWarnings{} // they are for the authors of objects
	namespace, err := f.where.namespaceOr(f.namespace)
	if err != nil {
		return err
	}
	options, err := f.simulated(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	options.Config, options.Log = config, logr.Discard()
	fieldManager := ""
	if f.serverSide {
		fieldManager = f.fieldManager
	}
	plan, err := simulation.Preview(cmd.Context(), options,
		simulation.PreviewOptions{Objects: objects, Namespace: namespace, FieldManager: fieldManager, Against: f.against, Timeout: f.wait})
	if err != nil {
		return planError(err)
	}
	if err := printPlan(cmd.OutOrStdout(), plan, f.output); err != nil {
		return err
	}
	switch {
	case plan.Summary.Problems > 0:
		return &codedError{code: exitBlocked}
	case plan.Incomplete:
		return &codedError{code: exitUnfinished}
	case f.exitCode && !plan.IsEmpty():
		return &codedError{code: exitChanges}
	}
	return nil
}

// planError adds to a refusal who can make the plan.
func planError(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w\na plan needs the permissions of the controllers: run it with a kubeconfig of their account, for example in a pipeline", err)
}

// appliedObjects reads the objects of files. All problems of all files are reported at once. As the API server does, it drops the
// namespaces of objects whose kinds are cluster-scoped.
func appliedObjects(cmd *cobra.Command, names []string) ([]simulation.Applied, error) {
	files, err := readFiles(cmd, names)
	if err != nil {
		return nil, err
	}
	w := workspace.New(files, workspace.Options{Version: Version()})
	var out []simulation.Applied
	var problems []string
	for _, f := range files {
		for _, p := range f.Problems() {
			problems = append(problems, f.Name+":"+p.String())
		}
		for _, d := range f.Documents() {
			if d.Object.GetKind() == "" || d.Object.GetAPIVersion() == "" || d.Object.GetName() == "" {
				problems = append(problems, f.Name+":"+source.Problem{Range: d.Range(""), Message: "an object must have apiVersion, kind and metadata.name"}.String())
				continue
			}
			if is := d.Object.GetNamespace(); is != w.NamespaceOf(d, is) {
				at := source.Problem{Range: d.Range("metadata.namespace"),
					Message: fmt.Sprintf("warning: metadata.namespace is dropped by the API server: %s is cluster-scoped", d.Object.GetKind())}
				fmt.Fprintln(prose(cmd.ErrOrStderr()), f.Name+":"+at.String())
				d.Object.SetNamespace("")
			}
			out = append(out, simulation.Applied{Object: d.Object, Source: f.Name})
		}
	}
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "\n"))
	}
	return out, nil
}

func printPlan(to io.Writer, plan preview.Plan, format outputFlag) error {
	if format == markdownOutput {
		_, err := io.WriteString(to, plan.Markdown())
		return err
	}
	return format.printText(to, plan, plan.Text(planWidthOf(to)))
}
