package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/protection"
)

// Store stores a certificate, which all replicas of a program share across restarts.
type Store interface {
	// Load returns the stored certificate; an empty Pair if there is none.
	Load(context.Context) (Pair, error)
	// Save replaces what Load has returned last. It fails with errConflict if another process
	// has stored a certificate since.
	Save(context.Context, Pair) error
}

var errConflict = errors.New("another process has stored a certificate")

const (
	authoritiesFile = "ca.crt"
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// Directory stores a certificate in a directory that only this program uses.
type Directory string

// Load implements Store.
func (d Directory) Load(context.Context) (Pair, error) {
	var p Pair
	for name, to := range map[string]*[]byte{authoritiesFile: &p.Authorities, certificateFile: &p.Certificate, keyFile: &p.Key} {
		raw, err := os.ReadFile(filepath.Join(string(d), name))
		if errors.Is(err, fs.ErrNotExist) {
			return Pair{}, nil
		}
		if err != nil {
			return Pair{}, err
		}
		*to = raw
	}
	return p, nil
}

// Save implements Store.
func (d Directory) Save(_ context.Context, p Pair) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{keyFile, p.Key}, {certificateFile, p.Certificate}, {authoritiesFile, p.Authorities}} {
		// A pair that was written in part does not load, and is issued again.
		if err := os.WriteFile(filepath.Join(string(d), file.name), file.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Mounted is a directory with a certificate that another program renews, such as cert-manager in a
// Secret that is mounted there.
type Mounted string

// Load implements Store.
func (m Mounted) Load(ctx context.Context) (Pair, error) { return Directory(m).Load(ctx) }

// Save implements Store. It fails: the certificate is not issued here.
func (m Mounted) Save(context.Context, Pair) error {
	return fmt.Errorf("there is no valid certificate for this webhook in %s, and none is issued here: tls.crt, tls.key and ca.crt are required", string(m))
}

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// SecretName is the name of the Secret that a certificate is stored in.
const SecretName = "espalier-webhook"

// Secret stores a certificate in a Secret.
type Secret struct {
	Cluster         *kube.Client
	Namespace, Name string

	loaded *unstructured.Unstructured
}

// Load implements Store.
func (s *Secret) Load(ctx context.Context) (Pair, error) {
	o, err := s.Cluster.Get(ctx, secretKind, s.Namespace, s.Name)
	if kube.IsObjectNotFound(err, s.Name) {
		s.loaded = nil
		return Pair{}, nil
	}
	if err != nil {
		return Pair{}, fmt.Errorf("read Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	s.loaded = o
	var p Pair
	for name, to := range map[string]*[]byte{authoritiesFile: &p.Authorities, certificateFile: &p.Certificate, keyFile: &p.Key} {
		text, _, _ := unstructured.NestedString(o.Object, "data", name)
		if *to, err = base64.StdEncoding.DecodeString(text); err != nil {
			return Pair{}, nil // another client has overwritten it
		}
	}
	return p, nil
}

// Save implements Store.
func (s *Secret) Save(ctx context.Context, p Pair) error {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if s.loaded != nil {
		o = s.loaded.DeepCopy()
	}
	o.SetGroupVersionKind(secretKind)
	o.SetNamespace(s.Namespace)
	o.SetName(s.Name)
	data := map[string]any{}
	for name, raw := range map[string][]byte{authoritiesFile: p.Authorities, certificateFile: p.Certificate, keyFile: p.Key} {
		data[name] = base64.StdEncoding.EncodeToString(raw)
	}
	o.Object["data"] = data
	var err error
	if s.loaded == nil {
		o.Object["type"] = "kubernetes.io/tls"
		s.loaded, err = s.Cluster.Create(ctx, o, protection.FieldManager)
	} else {
		s.loaded, err = s.Cluster.Replace(ctx, o, protection.FieldManager)
	}
	switch {
	case kube.IsNameTaken(err), kube.IsStale(err):
		return errConflict
	case err != nil:
		return fmt.Errorf("write Secret %s/%s: %w", s.Namespace, s.Name, kube.Redacted(err))
	}
	return nil
}
