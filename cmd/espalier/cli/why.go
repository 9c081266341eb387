package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
)

// whyFlags are the flags of why.
type whyFlags struct {
	instanceFlags
	files []string
}

func newWhy() *cobra.Command {
	var flags whyFlags
	cmd := &cobra.Command{
		Use:   "why KIND NAME [FIELD]",
		Short: "Explain why an object is not ready or not gone, or where a field's value comes from",
		Long: "Names the deepest cause in one sentence; then the chain from the object down to it, with since\n" +
			"when, how often it was tried and when next; and what to do. Further causes that do not follow\n" +
			"from it come after that, and nodes that are left out, with the conditions.\n\n" +
			"It explains instances, definitions with all their instances, and managed resources.\n\n" +
			"For a field that another manager keeps overwriting, it names the manager, since when, and how to\n" +
			"end that. For an instance, it names the revision of the definition or composition that composes it,\n" +
			"why that one, and what would move it to another.\n\n" +
			"With a FIELD such as spec.replicas, it shows the value, who owns the field, the expression of the\n" +
			"definition that sets it, and the values that the expression reads; of an object that a composition\n" +
			"composes, the steps and patches that set it, with the value after each. The pipeline is run here for\n" +
			"that; functions that run elsewhere are not called. With the file of the definition or composition, it\n" +
			"names the lines. Data of Secrets is not shown, and Secrets of a pipeline are not read.\n\n" + kindNames + "\n\n" +
			"Exit codes: 0 if the object is ready, or the field is explained; 5 if the object is not ready;\n" +
			"1 after a failure; 2 for invalid arguments.",
		Example: "  espalier why eksclusterwithvpc demo\n" +
			"  espalier why webapp/shop -n prod -o json\n" +
			"  espalier why deployment web spec.replicas\n" +
			"  espalier why deployment/web spec.replicas -f platform/\n" +
			"  espalier why bucket logs spec.forProvider.region -f composition.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			of, _ := splitField(args)
			return requireKindAndName(cmd, of)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return why(cmd, flags, args) },
	}
	cmd.ValidArgsFunction = flags.completeObjects
	flags.cluster.add(cmd)
	flags.cluster.addFrom(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "the object's namespace; by default the context's")
	flags.output.add(cmd)
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil, "with a field: file or directory with its definition or composition; repeatable")
	return cmd
}

// splitField splits the field off KIND NAME FIELD, or KIND/NAME FIELD.
func splitField(args []string) (of []string, field string) {
	names := 2
	if len(args) > 0 && strings.Contains(args[0], "/") {
		names = 1
	}
	if len(args) != names+1 {
		return args, ""
	}
	return args[:names], args[names]
}

func why(cmd *cobra.Command, flags whyFlags, args []string) error {
	of, field := splitField(args)
	kind, name, err := parseKindAndName(cmd.Name(), of)
	switch {
	case err != nil:
		return err
	case field != "":
		return whyField(cmd, flags, kind, name, field)
	case len(flags.files) > 0:
		return &usageError{errors.New("--filename is for a field: why KIND NAME FIELD")}
	}
	shown, state, err := flags.readTree(cmd.Context(), cmd.ErrOrStderr(), kind, name)
	if err != nil {
		return err
	}
	if state.Gone() {
		return fmt.Errorf("%s not found", shown.target)
	}
	now := time.Now()
	explained := shown.explainTree(cmd.Context(), state, now)
	if explained.Revision, err = shown.explainRevision(cmd.Context(), state); err != nil {
		fmt.Fprintf(prose(cmd.ErrOrStderr()), "note: cannot determine which revision composes it: %s\n", observe.Printable(err.Error()))
	}
	text := explained.Text(now, widthOf(cmd.OutOrStdout()))
	if flags.output == tableOutput {
		shown.printHolds(cmd.Context(), cmd.ErrOrStderr())
	}
	if err := flags.output.printText(cmd.OutOrStdout(), json.RawMessage(explained.JSON()), text); err != nil {
		return err
	}
	if !explained.IsReady() {
		return &codedError{code: exitNotReady}
	}
	return nil
}

// whyField explains a field of an object.
func whyField(cmd *cobra.Command, flags whyFlags, kind, name, field string) error {
	path := object.Path(field)
	if path.Segments() == nil {
		return &usageError{fmt.Errorf("%q is not the path of a field, such as spec.containers[0].image", field)}
	}
	shown, err := flags.find(cmd.Context(), cmd.ErrOrStderr(), kind, name)
	if err != nil {
		return err
	}
	o, err := shown.ResourceClient(shown.target).Get(cmd.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s not found", shown.target)
	}
	if err != nil {
		return err
	}
	if err := flags.checkField(o, path); err != nil {
		return err
	}
	files, err := readFiles(cmd, flags.files)
	if err != nil {
		return err
	}
	width := widthOf(cmd.OutOrStdout())
	explained, isComposed, err := shown.explainComposedField(cmd.Context(), o, path, files)
	if err != nil {
		fmt.Fprintf(prose(cmd.ErrOrStderr()), "note: cannot determine whether a composition sets it: %s\n", observe.Printable(err.Error()))
	}
	if isComposed {
		return flags.output.printText(cmd.OutOrStdout(), json.RawMessage(explained.JSON()), explained.Text(time.Now(), width))
	}
	var state observe.ClusterState
	if _, isInstance := observe.DefinitionOf(o); isInstance && path.Segments()[0] == "status" {
		state, err = follow.Gather(cmd.Context(), shown.Cluster, shown.target)
	} else {
		state, err = shown.treeOfInstance(cmd, o)
	}
	if err != nil {
		return err
	}
	printUnreadable(cmd.ErrOrStderr(), state) // an expression may read it
	definition, place := definitionOf(state, files)
	explained = observe.ExplainField(o, path, state, observe.Compile(definition))
	if definition != nil {
		explained.Definition = definition.GetKind() + " " + definition.GetName()
		explained.File = place(explained.Place)
	}
	return flags.output.printText(cmd.OutOrStdout(), json.RawMessage(explained.JSON()), explained.Text(time.Now(), width))
}

// checkField returns an error if the object does not have a field, and objects of its kind cannot have it. Where the schema cannot be
// read, every field passes.
func (f *whyFlags) checkField(o *unstructured.Unstructured, field object.Path) error {
	if observe.HasField(o, field) {
		return nil
	}
	config, err := f.cluster.config()
	if err != nil {
		return err
	}
	schema, err := servedSchema(config, o.GroupVersionKind())
	if err != nil {
		return nil //nolint:nilerr // without a schema, the field may exist
	}
	return observe.CheckField(o.GetKind(), schema, field)
}

// treeOfInstance reads the tree of the instance that an object belongs to; without a root if it belongs to none.
func (i instance) treeOfInstance(cmd *cobra.Command, o *unstructured.Unstructured) (none observe.ClusterState, err error) {
	key, _, isChild := inventory.InstanceOf(o)
	if !isChild {
		return none, nil
	}
	return i.gather(cmd.Context(), key)
}

// gather reads the tree of an object.
func (i instance) gather(ctx context.Context, key object.Key) (observe.ClusterState, error) {
	target, err := i.Kinds.TargetOf(key)
	if err != nil {
		return observe.ClusterState{}, err
	}
	return follow.Gather(ctx, i.Cluster, target)
}

// definitionOf returns the definition of an instance: from files if they have it, or else from the cluster; nil if it is of the
// other dialect or cannot be read. place returns the file, line and column of a field of it.
func definitionOf(state observe.ClusterState, files []*workspace.File) (definition *unstructured.Unstructured, place func(object.Path) string) {
	if state.Root == nil {
		return nil, nil
	}
	name, ok := observe.DefinitionOf(state.Root)
	isGraph := state.Root.GroupVersionKind() == graph.GraphKind
	if isGraph { // it is its own definition
		name = types.NamespacedName{Namespace: state.Root.GetNamespace(), Name: state.Root.GetName()}
	}
	if !ok && !isGraph {
		return nil, nil
	}
	for _, f := range files {
		for _, d := range f.Documents() {
			if d.Object.GetName() == name.Name && isGraph == (d.Object.GetKind() == v1alpha1.GraphKind) && strings.HasPrefix(d.Object.GetAPIVersion(), "kro.run/") {
				return d.Object, func(p object.Path) string {
					at := d.Range(p).Start
					return fmt.Sprintf("%s:%d:%d", f.Name, at.Line, at.Column)
				}
			}
		}
	}
	if isGraph {
		return state.Root, func(object.Path) string { return "" }
	}
	return state.Definitions[name], func(object.Path) string { return "" }
}
