package postgrestest

import (
	"path/filepath"

	"github.com/espalier-dev/espalier/internal/testkit/certificate"
)

// certify makes an authority, and a certificate of it for the server, by its name alone.
func (s *Server) certify() error {
	authority, err := certificate.NewAuthority()
	if err != nil {
		return err
	}
	own, key, err := authority.Issue("localhost")
	if err != nil {
		return err
	}
	s.CA = authority.PEM
	if err := s.write(filepath.Join(s.Dir, "server.crt"), own); err != nil {
		return err
	}
	return s.write(filepath.Join(s.Dir, "server.key"), key)
}
