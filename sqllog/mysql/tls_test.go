package mysql_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headwaterdb/headwater/internal/dbtest"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
)

// certificate writes a certificate for 127.0.0.1 that vouches for itself, and its key, where the server can read them.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "headwater-tls-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// TestTLS: a server that insists on TLS is spoken to only where its certificate is vouched for.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	other, _ := certificate(t)
	m := dbtest.NewMariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key, "--require-secure-transport=ON")
	plain := on(m)
	with := func(query string) mysql.Options {
		o := plain
		o.DSN += "?" + query
		return o
	}
	cluster(t, with("ssl-ca="+cert), 2)
	if cipher := scan[string](t, session(t, plain.DSN+"?tls=skip-verify"), "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher'"); cipher == "" {
		t.Error("the session is not encrypted")
	}
	for name, c := range map[string]struct {
		o    mysql.Options
		want error
	}{
		"another certificate":       {with("ssl-ca=" + other), oplog.ErrSettings},
		"the system's certificates": {with("tls=true"), oplog.ErrSettings},
		"no TLS":                    {plain, oplog.ErrDenied},
	} {
		if _, err := mysql.Open(t.Context(), c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
