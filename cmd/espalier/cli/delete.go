package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/observe"
)

// deleteFlags are how an instance is to be deleted, and what is to be seen of it.
type deleteFlags struct {
	instanceFlags
	watch   bool
	timeout time.Duration
	cascade string
}

// cascades are what can become of what an instance is made of.
var cascades = map[string]metav1.DeletionPropagation{
	"background": metav1.DeletePropagationBackground,
	"foreground": metav1.DeletePropagationForeground,
	"orphan":     metav1.DeletePropagationOrphan,
}

func newDelete() *cobra.Command {
	var flags deleteFlags
	cmd := &cobra.Command{
		Use:   "delete KIND NAME",
		Short: "Delete an instance, and watch it go",
		Long: "Asks for the deletion of an instance. What it is made of goes before it, in\n" +
			"reverse order. With --watch, its tree is shown with how far it is and what holds\n" +
			"it up, until it is gone; whoever stops watching leaves the deletion going. Only\n" +
			"the object that is there now is meant, never a later one of the same name.\n\n" + kindNames + "\n\n" +
			"Exit codes:\n" +
			"  0  it is gone; or, without --watch, its deletion was asked for\n" +
			"  1  it could not be asked for, or not be watched to its end, or there is no such object\n" +
			"  2  the call can't be meant\n" +
			"  3  it is not gone within --timeout, and something holds it up, which is printed\n" +
			"  4  it is not gone within --timeout, and nothing is known to hold it up",
		Example: "  espalier delete eksclusterwithvpc demo --watch\n" +
			"  espalier delete vpcs.kro.run main -n prod --watch --timeout 5m -o json",
		Args: kindAndName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return &usageError{err}
			}
			kind, name, err := named(cmd.Name(), args)
			if err != nil {
				return err
			}
			return deleteInstance(cmd, flags, kind, name)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "show how it goes, until it is gone")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 0, "for how long to watch, such as 5m; by default until it is gone")
	cmd.Flags().StringVar(&flags.cascade, "cascade", "background", "what becomes of what it is made of: with background or foreground it goes, with orphan it stays")
	return cmd
}

func (f *deleteFlags) check() error {
	if _, known := cascades[f.cascade]; !known {
		return fmt.Errorf("--cascade can be background, foreground or orphan, not %q", f.cascade)
	}
	switch {
	case f.timeout < 0:
		return fmt.Errorf("--timeout can't be negative, such as %s", f.timeout)
	case f.timeout > 0 && !f.watch:
		return fmt.Errorf("--timeout is about --watch, which is missing")
	case f.output != "" && !f.watch:
		return fmt.Errorf("--output is about --watch, which is missing")
	}
	return nil
}

func deleteInstance(cmd *cobra.Command, flags deleteFlags, kind, name string) error {
	meant, err := flags.find(kind, name)
	if err != nil {
		return err
	}
	meant.tellHolds(cmd.Context(), cmd.ErrOrStderr())
	asked := request{instance: meant, cascade: cascades[flags.cascade]}
	if flags.watch {
		return watchDeletion(cmd, &asked, flags)
	}
	root, err := asked.Of(asked.target).Get(cmd.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no %s", asked.target)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", asked.target, err)
	}
	asked.target.UID = root.GetUID()
	gone, err := asked.send(cmd.Context())
	if err != nil {
		return err
	}
	fmt.Fprint(cmd.OutOrStdout(), asked.answer(root, gone, time.Now()))
	return nil
}

// request asks for the deletion of one incarnation of an instance.
type request struct {
	instance
	cascade metav1.DeletionPropagation
}

// send asks for the deletion, and says whether the object was gone by then.
func (r *request) send(ctx context.Context) (gone bool, err error) {
	err = r.Of(r.target).Delete(ctx, r.target.Name, metav1.DeleteOptions{
		PropagationPolicy: &r.cascade,
		Preconditions:     &metav1.Preconditions{UID: &r.target.UID},
	})
	if err == nil {
		return false, nil
	}
	// Anybody may refuse with these codes, an admission webhook for example.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		now, look := r.Of(r.target).Get(ctx, r.target.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(look) || look == nil && now.GetUID() != r.target.UID {
			return true, nil
		}
	}
	return false, fmt.Errorf("delete %s: %w", r.target, err)
}

// answer says what was asked for, and how to go on from here.
func (r *request) answer(root *unstructured.Unstructured, gone bool, now time.Time) string {
	if gone {
		return fmt.Sprintf("%s is gone already\n", r.target)
	}
	text := fmt.Sprintf("the deletion of %s is asked for\n", r.target)
	if since := root.GetDeletionTimestamp(); since != nil {
		text = fmt.Sprintf("%s was being deleted already, since %s\n", r.target, observe.Age(now.Sub(since.Time)))
	}
	where := observe.Arguments(root)
	return text + "follow it with:               espalier tree " + where + " --watch\n" +
		"see what holds it up with:    espalier blockers " + where + "\n"
}
