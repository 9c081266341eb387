package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// deleteFlags are the flags of delete.
type deleteFlags struct {
	instanceFlags
	watch   bool
	timeout time.Duration
	cascade string
}

// cascades are the values of --cascade.
var cascades = map[string]metav1.DeletionPropagation{
	"background": metav1.DeletePropagationBackground,
	"foreground": metav1.DeletePropagationForeground,
	"orphan":     metav1.DeletePropagationOrphan,
}

func newDelete() *cobra.Command {
	var flags deleteFlags
	cmd := &cobra.Command{
		Use:   "delete KIND NAME",
		Short: "Delete an instance, and watch the progress",
		Long: "Requests the deletion of an instance. Its children are deleted before it, in reverse\n" +
			"order. With --watch, its tree is shown with the progress and the blockers, until it\n" +
			"is gone; the deletion goes on if you stop watching. Only the object that exists now\n" +
			"is deleted, never a later one of the same name.\n\n" + kindNames + "\n" +
			"A KIND that several kinds match needs .GROUP, or .VERSION. of the core group.\n\n" +
			"Exit codes:\n" +
			"  0  it is gone; or, without --watch, its deletion was requested\n" +
			"  1  it could not be requested or watched to the end, or the object does not exist\n" +
			"  2  the arguments are invalid\n" +
			"  3  it is not gone within --timeout; the blockers are printed\n" +
			"  4  it is not gone within --timeout, and nothing is known to block it",
		Example: "  espalier delete eksclusterwithvpc demo --watch\n" +
			"  espalier delete vpcs.kro.run main -n prod --watch --timeout 5m -o json",
		Args: requireKindAndName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return &usageError{err}
			}
			kind, name, err := parseKindAndName(cmd.Name(), args)
			if err != nil {
				return err
			}
			return deleteInstance(cmd, flags, kind, name)
		},
	}
	cmd.ValidArgsFunction = flags.completeObjects
	flags.add(cmd)
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "show the progress until it is gone")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 0, "timeout of the watch, such as 5m; by default none")
	cmd.Flags().StringVar(&flags.cascade, "cascade", "background", "what happens to its children: background or foreground deletes them, orphan keeps them")
	return cmd
}

func (f *deleteFlags) check() error {
	if _, known := cascades[f.cascade]; !known {
		return fmt.Errorf("--cascade can be background, foreground or orphan, not %q", f.cascade)
	}
	switch {
	case f.timeout < 0:
		return fmt.Errorf("--timeout must not be negative, such as %s", f.timeout)
	case f.timeout > 0 && !f.watch:
		return fmt.Errorf("--timeout requires --watch")
	case f.output != tableOutput && !f.watch:
		return fmt.Errorf("--output requires --watch")
	}
	return nil
}

func deleteInstance(cmd *cobra.Command, flags deleteFlags, kind, name string) error {
	target, err := flags.find(cmd.Context(), io.Discard, kind, name)
	if err != nil {
		return err
	}
	if err := requireOneKind(kind, target.target); err != nil {
		return err
	}
	target.printHolds(cmd.Context(), cmd.ErrOrStderr())
	request := deletionRequest{instance: target, cascade: cascades[flags.cascade]}
	if flags.watch {
		return watchDeletion(cmd, &request, flags)
	}
	root, err := request.ResourceClient(request.target).Get(cmd.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s not found", request.target)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", request.target, err)
	}
	request.target.UID = root.GetUID()
	gone, err := request.send(cmd.Context())
	if err != nil {
		return err
	}
	fmt.Fprint(cmd.OutOrStdout(), request.message(root, gone, time.Now(), widthOf(cmd.OutOrStdout())))
	return nil
}

// requireOneKind returns an error if a kind may be another one too: a wrong guess would delete the wrong object.
func requireOneKind(written string, target reader.Target) error {
	if len(target.Alternatives) == 0 {
		return nil
	}
	taken := target.Mapping.Resource
	exact := taken.Resource + "." + taken.Group
	if taken.Group == "" {
		exact = taken.Resource + "." + taken.Version + "." // the core group has no other name
	}
	all := append([]string{exact}, target.Alternatives...)
	return &usageError{fmt.Errorf("%s is ambiguous; name one of these kinds: %s", written, strings.Join(all, ", "))}
}

// deletionRequest requests the deletion of one object, never of a later one of its name.
type deletionRequest struct {
	instance
	cascade metav1.DeletionPropagation
}

// send requests the deletion. Gone is true if the object was gone already.
func (r *deletionRequest) send(ctx context.Context) (gone bool, err error) {
	err = r.ResourceClient(r.target).Delete(ctx, r.target.Name, metav1.DeleteOptions{
		PropagationPolicy: &r.cascade,
		Preconditions:     &metav1.Preconditions{UID: &r.target.UID},
	})
	if err == nil {
		return false, nil
	}
	// An admission webhook may refuse with these codes as well.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		now, getErr := r.ResourceClient(r.target).Get(ctx, r.target.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(getErr) || getErr == nil && now.GetUID() != r.target.UID {
			return true, nil
		}
	}
	return false, fmt.Errorf("delete %s: %w", r.target, err)
}

// message says that the deletion was requested, wrapped to a width other than 0, and names the next commands, which can be copied.
func (r *deletionRequest) message(root *unstructured.Unstructured, gone bool, now time.Time, width int) string {
	if gone {
		return diag.WrapLines(fmt.Sprintf("%s is already gone\n", r.target), width)
	}
	text := fmt.Sprintf("deletion of %s requested\n", r.target)
	if since := root.GetDeletionTimestamp(); since != nil {
		text = fmt.Sprintf("%s is already being deleted; started %s ago\n", r.target, observe.Age(now.Sub(since.Time)))
	}
	where := observe.Arguments(root)
	return diag.WrapLines(text, width) + "to follow it:            espalier tree " + where + " --watch\n" +
		"to see what blocks it:   espalier blockers " + where + "\n"
}
