package postgresql

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// generates says that the role has a password of this program's making: one with
// which somebody can log in, a Secret that takes it, and leave to set it.
func generates(m *v1alpha1.Role, login bool) bool {
	return m.Spec.ForProvider.PasswordSecretRef == nil && m.Spec.WriteConnectionSecretToRef != nil && login &&
		m.Spec.ManagementPolicies.Allow(resource.ActionUpdate)
}

// ownPassword reads the password that the user has chosen.
func ownPassword(objects managed.Objects, m *v1alpha1.Role) (string, error) {
	ref := m.Spec.ForProvider.PasswordSecretRef
	o, err := objects.Get(secretKind, m.Namespace, ref.Name)
	if err != nil {
		return "", err
	}
	if o == nil {
		return "", fmt.Errorf("spec.forProvider.passwordSecretRef: there is no Secret %s/%s", m.Namespace, ref.Name)
	}
	key := ref.Key
	if key == "" {
		key = "password"
	}
	password := dataOf(o)[key]
	if password == "" || strings.ContainsRune(password, 0) {
		return "", fmt.Errorf("spec.forProvider.passwordSecretRef: the Secret %s/%s has no key %q, or it is no password", m.Namespace, ref.Name, key)
	}
	return password, nil
}

// published is what the role's connection secret holds; nothing of one that is
// somebody else's.
func published(objects managed.Objects, m *v1alpha1.Role) (map[string]string, error) {
	if m.Spec.WriteConnectionSecretToRef == nil {
		return nil, nil
	}
	o, err := objects.Get(secretKind, m.Namespace, m.Spec.WriteConnectionSecretToRef.Name)
	if err != nil || o == nil || !metav1.IsControlledBy(o, m) {
		return nil, err
	}
	return dataOf(o), nil
}

// toBeSet is the password that the server is to be given now.
func toBeSet(objects managed.Objects, m *v1alpha1.Role) (string, error) {
	if m.Spec.ForProvider.PasswordSecretRef != nil {
		return ownPassword(objects, m)
	}
	data, err := published(objects, m)
	if err != nil {
		return "", err
	}
	if password := keptIn(data).latest(); password != "" {
		return password, nil
	}
	return "", errors.New("the connection secret doesn't hold it yet")
}

// credentials sees to a role's password, and tells what its connection secret is to
// hold. What the server has is asked by is.
func (s *sight) credentials(v *visit, m *v1alpha1.Role, state *roleState, is func(string) external.Answer) error {
	p := m.Spec.ForProvider
	data, err := published(v.objects, m)
	if err != nil {
		return err
	}
	connection := v.server.connection(state.Name, said(p.Database, v.server.Database))
	switch {
	case p.PasswordSecretRef != nil:
		password, err := ownPassword(v.objects, m)
		if err != nil {
			return err
		}
		has := is(password)
		s.password(turn{Set: has == external.No, Unknown: has == external.CannotTell}, state.Name, "the Secret "+p.PasswordSecretRef.Name)
		if connection["password"] = password; has == external.No && data["password"] != "" {
			connection["password"] = data["password"] // it opens until the other is set
		}
		// The runtime keeps a digest of all this where more people may read than here;
		// with something random in it nobody can try passwords on that.
		connection["nonce"] = data["nonce"]
		if connection["nonce"] == "" {
			connection["nonce"] = rand.Text()
		}
	case generates(m, state.Is["LOGIN"]):
		t := nextTurn(keptIn(data), p.PasswordRotation, time.Now(), newPassword, is)
		s.password(t, state.Name, "the connection secret "+m.Spec.WriteConnectionSecretToRef.Name)
		connection["password"], connection[keyToken], connection[keyAt] = t.Keep.Password, t.Keep.Token, t.Keep.At.UTC().Format(time.RFC3339)
		if t.Keep.Next != "" {
			connection[keyNext] = t.Keep.Next
		}
		s.at["passwordSetAt"] = connection[keyAt]
	}
	v.server.addURI(connection)
	s.connection = map[string][]byte{}
	for key, value := range connection {
		s.connection[key] = []byte(value)
	}
	return nil
}

// password takes what follows for a password.
func (s *sight) password(t turn, role, from string) {
	switch {
	case t.Waits:
		s.waits = "the password is being stored"
		if t.Keep.Next == "" {
			s.unready = s.waits
		}
	case t.Set:
		s.changes.Password, s.changes.PasswordFrom = role, from
		s.differs = append(s.differs, "the password isn't that of "+from)
		if t.Keep.Next == "" {
			s.unready = "the password isn't set"
		}
	case t.Unknown:
		s.waits = "whether the password is that of " + from + " can't be told: it can't be read, and the server lets this program in without one, or not at all"
		s.unready = s.waits
	}
}

// connection is what is needed to connect as a role.
func (s server) connection(role, database string) map[string]string {
	out := map[string]string{"endpoint": s.Host, "port": strconv.Itoa(int(s.Port)), "database": database}
	if role != "" {
		out["username"] = role
	}
	if s.CA != "" {
		out["ca.crt"] = s.CA
	}
	return out
}

// addURI adds all of it as one text.
func (s server) addURI(connection map[string]string) {
	query := url.Values{"sslmode": {string(s.TLS)}}
	u := url.URL{Scheme: "postgresql", Path: "/" + connection["database"], Host: net.JoinHostPort(s.Host, connection["port"])}
	if strings.HasPrefix(s.Host, "/") {
		u.Host = ""
		query.Set("host", s.Host)
		query.Set("port", connection["port"])
	}
	if user := connection["username"]; user != "" {
		u.User = url.User(user)
		if password := connection["password"]; password != "" {
			u.User = url.UserPassword(user, password)
		}
	}
	u.RawQuery = query.Encode()
	connection["uri"] = u.String()
}
