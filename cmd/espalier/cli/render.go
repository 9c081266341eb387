package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/simulation"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// offlineFlags are the flags of commands that run the controllers without an API server.
type offlineFlags struct {
	configuration
	namespace string
	wait      time.Duration
}

func (f *offlineFlags) add(cmd *cobra.Command) {
	flags := f.addSimulated(cmd)
	f.Functions.RunPackages, f.defaults.Functions.RunPackages = true, true
	f.addPackages(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "default", "the namespace of objects that name none")
	flags.DurationVar(&f.wait, "wait", time.Minute, "timeout of the controllers' run")
}

func (f *offlineFlags) check(cmd *cobra.Command) error {
	if f.wait <= 0 {
		return &usageError{fmt.Errorf("--wait must be longer than 0, not %s", f.wait)}
	}
	return f.complete(cmd)
}

// renderFlags are the flags of render.
type renderFlags struct {
	offlineFlags
	files  []string
	kinds  []string
	output string
}

func newRender() *cobra.Command {
	var flags renderFlags
	cmd := &cobra.Command{
		Use:   "render -f FILE...",
		Short: "Print what instances consist of, without a cluster",
		Long: "Prints each instance of the files with its status, and the objects that it consists of, in the\n" +
			"order in which they are written. The controllers themselves run, in an empty cluster in memory;\n" +
			"functions are called. The package of a Function is fetched and run, without a container engine.\n" +
			"Operations run once, also those that CronOperations and WatchOperations would make.\n\n" +
			"The files have definitions, or compositions, and instances. Another object with the kind and name of\n" +
			"a child is the observed state of that child, such as the status of a Deployment, and nodes that wait\n" +
			"for it continue. All other objects exist besides the instances, which can read them. Kinds that the\n" +
			"files do not define come from CustomResourceDefinitions and definitions in --kinds.\n\n" +
			"For comparable results, Espalier's own labels, times and what a server adds are left out. Comments\n" +
			"list what is not known yet, and why, the nodes that are left out, and the warnings of functions.\n\n" +
			"Exit codes: 0, or 1 after a failure or if there are problems; 2 for invalid arguments.",
		Example: "  espalier render -f webapp.yaml -f shop.yaml\n" +
			"  espalier render -f platform/ -f shop.yaml -f deployment-ready.yaml -o json\n" +
			"  espalier render -f composition/ -f store.yaml --function function-mine=./mine",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	flags.offlineFlags.add(cmd)
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil, "file or directory, or - for the standard input; repeatable")
	cmd.Flags().StringSliceVar(&flags.kinds, "kinds", nil, "file or directory with definitions of further kinds; repeatable")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "yaml", "yaml or json")
	return cmd
}

// kindsOf returns the CustomResourceDefinitions in files, and of the kinds that definitions in them define, unless one of the objects does. Objects of
// these kinds can exist, and consist of nothing.
func kindsOf(cmd *cobra.Command, names []string, objects []simulation.Applied) ([]simulation.Applied, error) {
	files, err := readFiles(cmd, names)
	if err != nil {
		return nil, err
	}
	var out []simulation.Applied
	for _, c := range workspace.New(files, workspace.Options{Version: Version()}).DefinitionsOfFiles() {
		if slices.ContainsFunc(objects, func(o simulation.Applied) bool {
			return o.Object.GetName() == c.Name || simulation.Defines(o.Object, crd.GroupKind(c))
		}) {
			continue
		}
		c = c.DeepCopy()
		c.ObjectMeta = metav1.ObjectMeta{Name: c.Name} // no definition owns it
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
		if err != nil {
			return nil, err
		}
		out = append(out, simulation.Applied{Object: &unstructured.Unstructured{Object: content}, Source: "--kinds"})
	}
	return out, nil
}

func (f *renderFlags) run(cmd *cobra.Command) error {
	switch {
	case len(f.files) == 0:
		return &usageError{errors.New("render takes files: -f FILE")}
	case f.output != "yaml" && f.output != "json":
		return &usageError{fmt.Errorf("--output is yaml or json, not %s", f.output)}
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	objects, err := appliedObjects(cmd, f.files)
	if err != nil {
		return err
	}
	kinds, err := kindsOf(cmd, f.kinds, objects)
	if err != nil {
		return err
	}
	objects = append(objects, kinds...)
	options, err := f.simulated(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	stop, err := f.runPackages(&options.Functions)
	if err != nil {
		return err
	}
	defer stop()
	if err := startPackages(cmd.Context(), options.Functions, objectsOf(objects)); err != nil {
		return err
	}
	rendered, problems, err := simulation.Render(cmd.Context(), options, objects, f.namespace, f.wait)
	if err != nil {
		return err
	}
	if err := printRendered(cmd.OutOrStdout(), rendered, f.output); err != nil {
		return err
	}
	if len(problems) == 0 && len(rendered) == 0 {
		return errors.New("the files have no instance of a kind that they define")
	}
	return problemsError(problems)
}

// problemsError is an error with all problems; nil if there are none.
func problemsError(problems []preview.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	lines := []string{diag.Counted(len(problems), "problem", "problems") + ":"}
	for _, p := range problems {
		lines = append(lines, "  "+strings.ReplaceAll(p.String(), "\n", "\n    "))
	}
	return errors.New(strings.Join(lines, "\n"))
}

func printRendered(to io.Writer, all []preview.Rendered, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(all)
	}
	for _, r := range all {
		text, err := r.YAML()
		if err != nil {
			return err
		}
		if _, err := io.WriteString(to, text); err != nil {
			return err
		}
	}
	return nil
}
