package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// activateFlags are the flags of activate and deactivate.
type activateFlags struct {
	where    clusterFlags
	name     string
	onDemand []string
	scopes   []string
	maxKinds int32
	wait     bool
	timeout  time.Duration
	// removes: the change is complete once deactivated kinds are removed.
	removes bool
}

func (f *activateFlags) add(cmd *cobra.Command) {
	f.where.add(cmd)
	cmd.Flags().StringVar(&f.name, "name", "default", "name of the ResourceTypeActivation")
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait until the change is complete")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "timeout of the wait")
}

func newAWSActivate() *cobra.Command {
	var flags activateFlags
	cmd := &cobra.Command{
		Use:   "activate [PATTERN...]",
		Short: "Serve the kinds of resource types",
		Long: "Adds resource types to a ResourceTypeActivation, which it creates if there is none, and\n" +
			"waits until their kinds are served. With --on-demand, types are activated only once a\n" +
			"ResourceGraphDefinition, ResourceGroup or Composition names one of their kinds.\n\n" +
			"The scopes of a ResourceTypeActivation apply to all its types. If it has other types, activate\n" +
			"refuses a --scope that it does not have: use --name for another ResourceTypeActivation.\n\n" +
			typePatterns + "\n\n" + exitCodes,
		Example: "  espalier aws activate AWS::EC2::VPC AWS::EC2::Subnet\n" +
			"  espalier aws activate 'AWS::EKS::*' --name eks --scope Namespaced,Cluster\n" +
			"  espalier aws activate --on-demand 'AWS::EC2::*','AWS::IAM::*'",
		ValidArgsFunction: completeTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args)+len(flags.onDemand) == 0 {
				return requirePatterns(cmd, args)
			}
			if err := flags.checkScopes(); err != nil {
				return err
			}
			if _, err := matchTypes(slices.Concat(args, flags.onDemand)); err != nil {
				return err
			}
			to, err := flags.where.activations()
			if err != nil {
				return err
			}
			stored, err := to.change(cmd.Context(), flags.name, true, func(s *resource.ActivationSpec) error { return flags.change(s, args) })
			if err != nil || !flags.wait {
				return err
			}
			return flags.follow(cmd, to, stored)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&flags.onDemand, "on-demand", nil, "types that definitions activate by naming their kinds")
	cmd.Flags().StringSliceVar(&flags.scopes, "scope", nil,
		"scope of the kinds: Namespaced or Cluster; by default as it is, Namespaced if it is new")
	cmd.Flags().Int32Var(&flags.maxKinds, "max-kinds", 0,
		"maximum number of kinds of the ResourceTypeActivation; by default "+strconv.Itoa(resource.DefaultMaxKinds))
	return cmd
}

// change adds the types to a spec. A scope is for all types of an activation, so that it is not added if the
// activation has others.
func (f *activateFlags) change(s *resource.ActivationSpec, types []string) error {
	for _, scope := range f.scopes {
		if slices.Contains(s.Scopes, resource.ActivationScope(scope)) {
			continue
		}
		if others := otherPatterns(s, slices.Concat(types, f.onDemand)); len(others) > 0 {
			return fmt.Errorf("ResourceTypeActivation %s has other types, whose kinds would get the scope %s too (%s): use --name for another ResourceTypeActivation", f.name, scope, strings.Join(others, ", "))
		}
		s.Scopes = append(s.Scopes, resource.ActivationScope(scope))
	}
	s.Types, s.OnDemand = addPatterns(s.Types, types), addPatterns(s.OnDemand, f.onDemand)
	if f.maxKinds > 0 {
		s.MaxKinds = f.maxKinds
	}
	return nil
}

// otherPatterns returns the patterns of a spec that are not among these.
func otherPatterns(s *resource.ActivationSpec, these []string) (out []string) {
	for _, p := range slices.Concat(s.Types, s.OnDemand) {
		if !slices.Contains(these, string(p)) {
			out = append(out, string(p))
		}
	}
	return out
}

func (f *activateFlags) checkScopes() error {
	for _, scope := range f.scopes {
		if s := resource.ActivationScope(scope); s != resource.ScopeNamespaced && s != resource.ScopeCluster {
			return &usageError{fmt.Errorf("--scope can be %s or %s, not %q", resource.ScopeNamespaced, resource.ScopeCluster, scope)}
		}
	}
	return nil
}

func newAWSDeactivate() *cobra.Command {
	var flags activateFlags
	cmd := &cobra.Command{
		Use:   "deactivate PATTERN...",
		Short: "Stop serving the kinds of resource types",
		Long: "Removes patterns from spec.types and spec.onDemand of a ResourceTypeActivation, exactly as\n" +
			"they are there; if it lacks one of them, nothing is changed. A kind is removed once no object\n" +
			"of it exists, and no other pattern matches it. Resources of AWS stay as they are.\n\n" + exitCodes,
		Example: "  espalier aws deactivate AWS::EC2::VPC\n" +
			"  espalier aws deactivate 'AWS::EKS::*' --name eks",
		Args: requirePatterns,
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := flags.where.activations()
			if err != nil {
				return err
			}
			stored, err := to.change(cmd.Context(), flags.name, false, func(s *resource.ActivationSpec) error { return flags.remove(s, args) })
			switch {
			case err != nil:
				return err
			case stored == nil:
				return fmt.Errorf("there is no ResourceTypeActivation %s; --name names another one", flags.name)
			case !flags.wait:
				return nil
			}
			flags.removes = true
			return flags.follow(cmd, to, stored)
		},
	}
	flags.add(cmd)
	return cmd
}

// remove removes patterns from a spec. It changes nothing if the spec lacks one of them.
func (f *activateFlags) remove(s *resource.ActivationSpec, patterns []string) error {
	types, onDemand := slices.Clone(s.Types), slices.Clone(s.OnDemand)
	for _, p := range patterns {
		is := func(other resource.TypePattern) bool { return string(other) == p }
		if !slices.ContainsFunc(s.Types, is) && !slices.ContainsFunc(s.OnDemand, is) {
			return fmt.Errorf("ResourceTypeActivation %s does not have the pattern %s; nothing was changed. It has %s", f.name, p, patternsOf(s))
		}
		types, onDemand = slices.DeleteFunc(types, is), slices.DeleteFunc(onDemand, is)
	}
	s.Types, s.OnDemand = types, onDemand
	return nil
}

// maxPatterns is how many patterns a message names.
const maxPatterns = 10

// patternsOf lists the patterns of a spec for a message.
func patternsOf(s *resource.ActivationSpec) string {
	all := otherPatterns(s, nil)
	switch {
	case len(all) == 0:
		return "none"
	case len(all) > maxPatterns:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxPatterns], ", "), len(all)-maxPatterns)
	}
	return strings.Join(all, ", ")
}

// follow prints the states of kinds until the change is complete.
func (f *activateFlags) follow(cmd *cobra.Command, in activations, stored *v1alpha1.ResourceTypeActivation) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	printed, last := map[string]string{}, progress{}
	err := in.watch(ctx, f.name, func(a *v1alpha1.ResourceTypeActivation) (bool, error) {
		if a.Generation < stored.Generation {
			return false, nil // an answer from before the change
		}
		if last = progressOf(a); f.removes && last.Done && a.Status.Kinds.Deactivated > 0 {
			last = progress{Waiting: notRemoved(a.Status.Kinds.Deactivated)}
		}
		if last.Done || last.Failed != "" || a.Status.ObservedGeneration >= a.Generation {
			for _, line := range stateLines(a, printed) {
				fmt.Fprintln(prose(cmd.OutOrStdout()), diag.Printable(strings.ReplaceAll(line, "\t", "  ")))
			}
		}
		if last.Done {
			awaitDocumented(ctx, in.documents, a)
			fmt.Fprintf(cmd.OutOrStdout(), "%d of %s served\n", a.Status.Kinds.Served, diag.Counted(int(a.Status.Kinds.Activated), "kind", "kinds"))
		}
		return last.Done || last.Failed != "", nil
	})
	switch {
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return err
	case last.Failed != "":
		return errors.New(last.Failed)
	case err != nil:
		return &codedError{exitUnfinished, fmt.Sprintf("after %s: %s", f.timeout, last.Waiting)}
	}
	return nil
}

// watch calls handle for each state of an activation until it returns true.
func (a activations) watch(ctx context.Context, name string, handle func(*v1alpha1.ResourceTypeActivation) (bool, error)) error {
	for {
		stream, err := a.client.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		done, err := handleEvents(ctx, stream, handle)
		stream.Stop()
		if done || err != nil {
			return err
		}
	}
}

// handleEvents returns false if the server has ended the watch.
func handleEvents(ctx context.Context, stream watch.Interface, handle func(*v1alpha1.ResourceTypeActivation) (bool, error)) (bool, error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, ok := <-stream.ResultChan():
			u, isObject := event.Object.(*unstructured.Unstructured)
			switch {
			case !ok, event.Type == watch.Error:
				return false, ctx.Err()
			case event.Type == watch.Deleted && isObject:
				return true, fmt.Errorf("ResourceTypeActivation %s was deleted", u.GetName())
			case !isObject:
				continue
			}
			a, err := activationOf(u)
			if err != nil {
				return true, err
			}
			if done, err := handle(a); done || err != nil {
				return true, err
			}
		}
	}
}

func newAWSActivations() *cobra.Command {
	var (
		where  clusterFlags
		output outputFlag
	)
	cmd := &cobra.Command{
		Use:   "activations",
		Short: "List the activated resource types of a cluster",
		Example: "  espalier aws activations\n" +
			"  espalier aws activations -o yaml",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := where.activations()
			if err != nil {
				return err
			}
			all, err := from.list(cmd.Context())
			if err != nil {
				return err
			}
			if len(all) == 0 && output == tableOutput {
				fmt.Fprintln(prose(cmd.ErrOrStderr()), "espalier: no resource type is activated; 'espalier aws activate' activates some")
				return nil
			}
			rows := activationRows(all)
			return output.printText(cmd.OutOrStdout(), rows, activationsTable(rows, widthOf(cmd.OutOrStdout())))
		},
	}
	where.add(cmd)
	output.add(cmd)
	return cmd
}

// activationRow is an activation with its kinds in a list.
type activationRow struct {
	Name     string                   `json:"name"`
	Types    []resource.TypePattern   `json:"types,omitempty"`
	OnDemand []resource.TypePattern   `json:"onDemand,omitempty"`
	Served   int32                    `json:"served"`
	Kinds    int32                    `json:"kinds"`
	Ready    string                   `json:"ready"`
	States   []resource.ActivatedType `json:"states,omitempty"`
}

func activationRows(all []v1alpha1.ResourceTypeActivation) []activationRow {
	out := make([]activationRow, 0, len(all))
	for _, a := range all {
		p := progressOf(&a)
		ready := p.Failed + p.Waiting
		if p.Done {
			ready = "True"
		}
		out = append(out, activationRow{
			Name: a.Name, Types: a.Spec.Types, OnDemand: a.Spec.OnDemand, Served: a.Status.Kinds.Served, Kinds: a.Status.Kinds.Activated,
			Ready: ready, States: a.Status.Types,
		})
	}
	return out
}

// activationsTable formats activations for a terminal of the given width, without the kinds of their types if that is narrow.
func activationsTable(rows []activationRow, width int) string {
	wide := [][]string{{"ACTIVATION", "TYPE", "KIND", "STATE", "MESSAGE"}}
	for _, r := range rows {
		for _, t := range r.States {
			wide = append(wide, []string{r.Name, t.Type, t.Kind, string(t.State), t.Message})
		}
		summary := fmt.Sprintf("%d of %s served", r.Served, diag.Counted(int(r.Kinds), "kind", "kinds"))
		if r.Ready != "True" {
			summary += "; " + r.Ready
		}
		wide = append(wide, []string{r.Name, "", "", "", summary})
	}
	const kind = 2
	narrow := make([][]string, len(wide))
	for i, cells := range wide {
		narrow[i] = slices.Delete(slices.Clone(cells), kind, kind+1)
	}
	if text := columns(wide, 0); fits(text, width) {
		return text
	}
	return columns(narrow, width)
}

// notRemoved says why a deactivation is not complete.
func notRemoved(kinds int32) string {
	if kinds == 1 {
		return "1 kind is not removed yet; it is removed once no object of it exists"
	}
	return fmt.Sprintf("%d kinds are not removed yet; they are removed once no objects of them exist", kinds)
}
