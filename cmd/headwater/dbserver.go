package main

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/headwaterdb/headwater"
	"github.com/headwaterdb/headwater/oplog"
	"github.com/headwaterdb/headwater/sqllog/mysql"
	"github.com/headwaterdb/headwater/sqllog/postgres"
)

// ours begins the parameters of a database's address that are for the log; the driver gets the others.
const ours = "headwater_"

// parameterName is what a parameter of ours may be called, mistyped ones too. What looks otherwise is not repeated: it may
// be a part of a password in which an & was not escaped.
var parameterName = regexp.MustCompile(`^headwater_[a-z_]{1,30}$`)

// takeOurs stores the parameters of an address that are ours where into points, by their names without the beginning, and
// returns the address without them. An error repeats the name of a parameter and the page that lists them, and nothing else of the
// address.
func takeOurs(address, page string, into map[string]any) (rest string, err error) {
	rest, query, _ := strings.Cut(address, "?")
	var others []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		name, mine := strings.CutPrefix(key, ours)
		if !mine {
			others = append(others, pair)
			continue
		}
		if value, err = url.QueryUnescape(value); err == nil {
			err = setParameter(into[name], value)
		}
		if err != nil && !parameterName.MatchString(key) {
			key = ours + "…"
		}
		if err != nil {
			return "", usagef("--db: the parameter %s has no value that it can have; see %s", key, page)
		}
	}
	if query = strings.Join(others, "&"); query != "" {
		rest += "?" + query
	}
	return rest, nil
}

// setParameter stores what a value says at into, which points to an option; nil: there is no such option.
func setParameter(into any, value string) (err error) {
	switch into := into.(type) {
	case *string:
		*into = value
	case *int:
		*into, err = strconv.Atoi(value)
	case *bool:
		*into, err = strconv.ParseBool(value)
	case *time.Duration:
		*into, err = time.ParseDuration(value)
	default:
		err = errors.New("no such parameter")
	}
	return err
}

// begun makes a database a cluster if it is none yet. The log is closed where that fails.
func begun(ctx context.Context, log oplog.Log) (oplog.Log, error) {
	_, err := log.Bounds(ctx)
	if errors.Is(err, oplog.ErrNoCluster) {
		_, err = headwater.Init(ctx, log)
		if errors.Is(err, oplog.ErrExists) { // another process was quicker
			err = nil
		}
	}
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	return log, nil
}

// printSQL returns the statements with which an administrator prepares the database at db for the two roles.
func printSQL(db, nodeRole, readerRole string) (text string, err error) {
	scheme, address, _ := strings.Cut(db, ":")
	switch scheme {
	case "postgres", "postgresql":
		o, err := postgresOptions(address)
		if err != nil {
			return "", err
		}
		text, err = postgres.PrintSQL(o, nodeRole, readerRole)
		if err != nil {
			return "", usagef("--db: %v", err)
		}
		return text, nil
	case "mysql":
		o, err := mysqlOptions(address)
		if err != nil {
			return "", err
		}
		text, err = mysql.PrintSQL(o, nodeRole, readerRole)
		if err != nil {
			return "", usagef("--db: %v", err)
		}
		return text, nil
	}
	return "", usagef("--print-sql is for --db postgres://… and mysql://…; a file needs no preparation")
}
