package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// planInstall decides which of this program's own CustomResourceDefinitions and of ExtraCRDs
// to create, update or leave.
func (k *Cluster) planInstall(current func(name string) (*apiextensionsv1.CustomResourceDefinition, bool)) ([]install.Step, error) {
	var extra []fs.FS
	if k.options.ExtraCRDs != nil {
		extra = k.options.ExtraCRDs(current)
	}
	return PlanInstall(extra, current)
}

// PlanInstall decides which of this program's own CustomResourceDefinitions and of those in extra to create, update or leave.
func PlanInstall(extra []fs.FS, current func(name string) (*apiextensionsv1.CustomResourceDefinition, bool)) ([]install.Step, error) {
	var wanted []*unstructured.Unstructured
	for _, files := range append([]fs.FS{espalier.CRDs}, extra...) {
		found, err := documents(files)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, found...)
	}
	return install.Plan(wanted, current)
}

// InstallAlways returns the same CustomResourceDefinitions whatever is installed.
func InstallAlways(files []fs.FS) func(func(string) (*apiextensionsv1.CustomResourceDefinition, bool)) []fs.FS {
	return func(func(string) (*apiextensionsv1.CustomResourceDefinition, bool)) []fs.FS { return files }
}

// documents reads the YAML files of a file system, one object each.
func documents(files fs.FS) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, o)
		return nil
	})
	return out, err
}

// install creates and updates CustomResourceDefinitions: all of them or, if a dry run fails,
// none.
func (k *Cluster) install(ctx context.Context) error {
	steps, err := k.planInstall(func(name string) (*apiextensionsv1.CustomResourceDefinition, bool) {
		stored, exists := k.CRDs.Get(name)
		if !exists {
			return nil, false
		}
		return stored.Whole(), true
	})
	if err != nil {
		return err
	}
	if err := install.Error(steps); err != nil {
		return err
	}
	for _, s := range steps {
		if s.Action == install.KeepNewer {
			k.options.Log.Info("CustomResourceDefinition was installed by a newer release; leaving it unchanged", "name", s.Wanted.GetName())
		}
		if s.Action == install.Replace {
			k.options.Log.Info("CustomResourceDefinition was installed by another program and lacks fields; replacing it",
				"name", s.Wanted.GetName(), "missingVersions", s.MissingVersions, "missingFields", s.MissingFields)
		}
		if s.Action == install.KeepForeign {
			log := k.options.Log
			if len(s.MissingVersions) == 0 && len(s.MissingFields) == 0 {
				log = log.V(1)
			}
			log.Info("CustomResourceDefinition was installed by another program; leaving it unchanged",
				"name", s.Wanted.GetName(), "missingVersions", s.MissingVersions, "missingFields", s.MissingFields, "unknownFields", s.UnknownFields)
		}
	}
	if err := execute(ctx, k.Client.DryRun(), steps); err != nil {
		return fmt.Errorf("nothing was installed: %w", err)
	}
	return execute(ctx, k.Client, steps)
}

// CheckInstall returns what Run would install, and writes nothing. The error says why Run would
// install nothing.
func (k *Cluster) CheckInstall(ctx context.Context) ([]install.Step, error) {
	installed, err := k.CRDs.List(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := k.planInstall(func(name string) (*apiextensionsv1.CustomResourceDefinition, bool) {
		found, exists := installed[name]
		return found, exists
	})
	if err != nil {
		return nil, err
	}
	return steps, errors.Join(install.Error(steps), execute(ctx, k.Client.DryRun(), steps))
}

// execute carries out the steps of a plan. With a dry-run client it checks whether the API
// server accepts them.
func execute(ctx context.Context, client *kube.Client, steps []install.Step) error {
	var failed []error
	for _, s := range steps {
		var err error
		switch s.Action {
		case install.Create:
			if _, err = client.Create(ctx, s.Wanted, v1alpha1.InstanceManager); kube.IsNameTaken(err) {
				err = nil // another program is installing it
			}
		case install.Update:
			_, err = client.Update(ctx, s.Wanted, s.Current.UID, v1alpha1.InstanceManager)
		case install.Replace:
			err = replace(ctx, client, s)
		case install.Unchanged, install.KeepForeign, install.KeepNewer, install.Refused:
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("install CustomResourceDefinition %s: %w", s.Wanted.GetName(), err))
		}
	}
	return errors.Join(failed...)
}

// replace replaces a CustomResourceDefinition of another program: what that program wrote and this one does not want is
// removed.
func replace(ctx context.Context, client *kube.Client, s install.Step) error {
	current := s.Wanted.DeepCopy()
	current.SetUID(s.Current.UID)
	var recordErr error
	_, err := client.ReplaceManagedFields(ctx, current, v1alpha1.InstanceManager, func(live *unstructured.Unstructured) ([]metav1.ManagedFieldsEntry, bool) {
		recordErr = install.SetFormer(s.Wanted, live)
		return managedfields.TakeSpec(live, v1alpha1.InstanceManager)
	})
	if err := errors.Join(err, recordErr); err != nil {
		return err
	}
	_, err = client.Update(ctx, s.Wanted, s.Current.UID, v1alpha1.InstanceManager)
	return err
}
