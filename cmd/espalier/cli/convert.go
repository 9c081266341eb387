package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/convert"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/simulation"
)

// convertFlags are the flags of convert.
type convertFlags struct {
	offlineFlags
	files       []string
	composition string
	check       int
	seed        uint64
	allowLoss   bool
}

func newConvert() *cobra.Command {
	var flags convertFlags
	cmd := &cobra.Command{
		Use:   "convert -f FILE...",
		Short: "Turn a composition into a graph definition",
		Long: "Prints a ResourceGraphDefinition with the same result as a CompositeResourceDefinition and its\n" +
			"Composition of function-patch-and-transform: patches become expressions, what a resource reads of\n" +
			"another by the composite's status is read directly, and readiness checks become readyWhen.\n\n" +
			"What has no equivalent is left out, and listed with its field: connection details, environments,\n" +
			"claims, other functions and the like.\n\n" +
			"With --check N, it draws N instances from the schema, runs the controllers with the composition and\n" +
			"with the result, both in memory, and lists every object and field of the status that differs. The\n" +
			"CustomResourceDefinitions of the composed kinds must be among the files, unless Kubernetes has the\n" +
			"kinds itself; objects get a status that is drawn from them.\n\n" +
			"Both define the same kind, so a cluster has one of them. Existing composites are not converted: an\n" +
			"instance of the graph definition creates its own resources.\n\n" +
			"Exit codes: 0; 1 if something has no equivalent or differs, or after a failure; 2 for invalid arguments.",
		Example: "  espalier convert -f xrd.yaml -f composition.yaml > graph.yaml\n" +
			"  espalier convert -f platform/ --composition stores-on-aws\n" +
			"  espalier convert -f platform/ -f crds/ --check 100",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	flags.offlineFlags.add(cmd)
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil, "a file or a directory, or - for the standard input; can be repeated")
	cmd.Flags().StringVar(&flags.composition, "composition", "", "the name of the composition, if the files have several")
	cmd.Flags().IntVar(&flags.check, "check", 0, "compare both with this many instances")
	cmd.Flags().Uint64Var(&flags.seed, "seed", 1, "with --check, the seed: the same one draws the same instances")
	cmd.Flags().BoolVar(&flags.allowLoss, "allow-loss", false, "exit with 0 although something has no equivalent")
	return cmd
}

func (f *convertFlags) run(cmd *cobra.Command) error {
	switch {
	case len(f.files) == 0:
		return &usageError{errors.New("convert takes files: -f FILE")}
	case f.check < 0 || f.check > maxFuzz:
		return &usageError{fmt.Errorf("--check must be from 0 to %d, not %d", maxFuzz, f.check)}
	}
	if err := f.offlineFlags.check(); err != nil {
		return err
	}
	objects, err := appliedObjects(cmd, f.files)
	if err != nil {
		return err
	}
	chosen, others, err := f.choose(objects)
	if err != nil {
		return err
	}
	result, err := convert.Graph(chosen.definition, chosen.composition)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(result.Definition)
	if err != nil {
		return err
	}
	if _, err := cmd.OutOrStdout().Write(text); err != nil {
		return err
	}
	var problems []string
	if lost := lossText(chosen, result); f.allowLoss {
		fmt.Fprint(prose(cmd.ErrOrStderr()), lost)
	} else if lost != "" {
		problems = append(problems, lost)
	}
	if f.check > 0 {
		differences, err := f.compare(cmd, chosen, others, result)
		if err != nil {
			return err
		}
		if differences != "" {
			problems = append(problems, differences)
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.TrimSuffix(strings.Join(problems, "\n"), "\n"))
	}
	return nil
}

// convertible is a definition of composites and a composition of its kind, and their objects.
type convertible struct {
	definition  *v1.CompositeResourceDefinition
	composition *v1.Composition
	objects     []simulation.Applied
}

// choose finds the definition and the composition, and the CustomResourceDefinitions beside them.
func (f *convertFlags) choose(objects []simulation.Applied) (convertible, []simulation.Applied, error) {
	var out convertible
	var others, definitions []simulation.Applied
	var names []string
	for _, o := range objects {
		switch {
		case o.Object.GetKind() == v1.DefinitionKind:
			definitions = append(definitions, o)
		case o.Object.GetKind() == "CustomResourceDefinition":
			others = append(others, o)
		case o.Object.GetKind() != "Composition":
		case f.composition == "" || o.Object.GetName() == f.composition:
			names = append(names, o.Object.GetName())
			out.composition = &v1.Composition{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, out.composition); err != nil {
				return out, nil, fmt.Errorf("decode Composition %s: %w", o.Object.GetName(), err)
			}
			out.objects = append(out.objects, o)
		}
	}
	switch {
	case len(names) == 0 && f.composition != "":
		return out, nil, fmt.Errorf("the files have no Composition %s", f.composition)
	case len(names) == 0:
		return out, nil, errors.New("the files have no Composition")
	case len(names) > 1:
		slices.Sort(names)
		return out, nil, &usageError{fmt.Errorf("the files have several compositions: choose one with --composition: %s", strings.Join(names, ", "))}
	}
	want := out.composition.Spec.CompositeTypeRef
	for _, o := range definitions {
		d, err := xrd.Read(o.Object)
		if err != nil {
			return out, nil, err
		}
		if d.Spec.Names.Kind == want.Kind && strings.HasPrefix(want.APIVersion, d.Spec.Group+"/") {
			out.definition = d
			out.objects = append([]simulation.Applied{o}, out.objects...)
			return out, slices.DeleteFunc(others, func(o simulation.Applied) bool { return isOfDefinition(o.Object, d) }), nil
		}
	}
	return out, nil, fmt.Errorf("the files have no CompositeResourceDefinition of kind %s of %s, which Composition %s is for", want.Kind, want.APIVersion, names[0])
}

// isOfDefinition says whether a CustomResourceDefinition is the one that a definition makes, as in a backup.
func isOfDefinition(o *unstructured.Unstructured, d *v1.CompositeResourceDefinition) bool {
	return o.GetName() == d.Name || d.Spec.ClaimNames != nil && o.GetName() == d.Spec.ClaimNames.Plural+"."+d.Spec.Group
}

// lossText lists what has no equivalent; empty if there is nothing.
func lossText(from convertible, result convert.Result) string {
	var b strings.Builder
	if n := len(result.OfDefinition) + len(result.OfComposition); n > 0 {
		fmt.Fprintf(&b, "%s no equivalent:\n", diag.Counted(n, "thing has", "things have"))
	}
	for _, l := range result.OfDefinition {
		fmt.Fprintf(&b, "  CompositeResourceDefinition %s: %s\n", from.definition.Name, l.String())
	}
	for _, l := range result.OfComposition {
		fmt.Fprintf(&b, "  Composition %s: %s\n", from.composition.Name, l.String())
	}
	return b.String()
}

// compare draws instances and lists what differs; empty if nothing does.
func (f *convertFlags) compare(cmd *cobra.Command, from convertible, others []simulation.Applied, result convert.Result) (string, error) {
	options, err := f.options(cmd)
	if err != nil {
		return "", err
	}
	found, err := server.CompareConversion(cmd.Context(), options,
		server.ConversionInput{Composition: from.objects, Others: others, Converted: result},
		server.Drawing{Namespace: f.namespace, Instances: f.check, Seed: f.seed, Timeout: f.wait})
	if err != nil {
		return "", err
	}
	summary := fmt.Sprintf("%s with seed %d", diag.Counted(found.Instances, "instance", "instances"), f.seed)
	if found.Refused > 0 {
		summary += fmt.Sprintf(", of which %d are refused", found.Refused)
	}
	if found.Failed > 0 {
		summary += fmt.Sprintf(", of which %d fail with both", found.Failed)
	}
	switch {
	case len(found.Differences) > 0:
	case found.Refused+found.Failed >= found.Instances:
		advice := map[bool]string{true: "; add the CustomResourceDefinitions of the composed kinds to the files"}[found.Failed > 0]
		return "nothing was compared: " + summary + advice + "\n", nil
	default:
		fmt.Fprintln(prose(cmd.ErrOrStderr()), "the same result for "+summary)
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s:\n", diag.Counted(len(found.Differences), "difference", "differences"), summary)
	for _, d := range found.Differences[:min(len(found.Differences), maxDifferences)] {
		fmt.Fprintf(&b, "  %s of %s:\n    composition: %s\n    graph:       %s\n", d.What, d.Instance, orNone(d.Composition), orNone(d.Graph))
	}
	if more := len(found.Differences) - maxDifferences; more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	return b.String(), nil
}

// maxDifferences bounds the differences that are printed.
const maxDifferences = 20

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
