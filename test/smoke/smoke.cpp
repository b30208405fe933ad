// Loads the packaged extension into a host that is linked as the DuckDB shell is: static DuckDB, no exported symbols,
// libstdc++ shared with the extension. It proves that the extension brings every symbol it needs and that its typed
// errors reach a host it shares no DuckDB code with.
//
//   smoke build/release/pensieve.duckdb_extension
#include "duckdb.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

using duckdb::Connection;
using duckdb::ExceptionType;
using duckdb::Value;

namespace {

int passed = 0;
int failed = 0;

void Check(bool holds, const std::string &what, const std::string &detail) {
	if (holds) {
		passed++;
		return;
	}
	failed++;
	std::printf("FAIL %s: %s\n", what.c_str(), detail.c_str());
}

std::string Quoted(const std::string &text) {
	return "'" + duckdb::StringUtil::Replace(text, "'", "''") + "'";
}

// What became of a statement: its first value and number of rows, or the error.
struct Answer {
	std::string value;
	duckdb::idx_t rows = 0;
	bool failed = false;
	ExceptionType type = ExceptionType::INVALID;
	std::string message;

	void Fail(const duckdb::ErrorData &error) {
		failed = true;
		type = error.Type();
		message = error.Message();
	}
};

// Runs a statement to its end: results are lazy, and a scan may fail in its last block.
Answer Run(Connection &connection, const std::string &sql) {
	Answer answer;
	try {
		auto result = connection.Query(sql);
		while (!result->HasError()) {
			auto chunk = result->FetchRaw();
			if (!chunk || chunk->size() == 0) {
				break;
			}
			if (answer.rows == 0) {
				answer.value = chunk->GetValue(0, 0).ToString();
			}
			answer.rows += chunk->size();
		}
		if (result->HasError()) {
			answer.Fail(result->GetErrorObject());
		}
	} catch (std::exception &exception) {
		answer.Fail(duckdb::ErrorData(exception));
	}
	return answer;
}

void ExpectSuccess(Connection &connection, const std::string &sql) {
	auto answer = Run(connection, sql);
	Check(!answer.failed, sql, answer.message);
}

void ExpectValue(Connection &connection, const std::string &sql, const std::string &expected) {
	auto answer = Run(connection, sql);
	Check(!answer.failed && answer.rows == 1 && answer.value == expected, sql,
	      "expected " + expected + ", got " + (answer.failed ? answer.message : answer.value));
}

void ExpectError(Connection &connection, const std::string &sql, ExceptionType type, const std::string &part) {
	auto answer = Run(connection, sql);
	Check(answer.failed, sql, "expected an error");
	Check(answer.type == type, sql, "error of another type: " + answer.message);
	Check(answer.message.find(part) != std::string::npos, sql, "no '" + part + "' in: " + answer.message);
}

} // namespace

int main(int argument_count, char **arguments) {
	if (argument_count != 2) {
		std::fprintf(stderr, "usage: %s EXTENSION\n", arguments[0]);
		return 2;
	}
	char directory[] = "/tmp/pensieve-smoke-XXXXXX";
	if (!mkdtemp(directory)) {
		std::perror("mkdtemp");
		return 2;
	}
	auto file = std::string(directory) + "/smoke.tlm";
	auto cut = std::string(directory) + "/cut.tlm";
	{
		duckdb::DBConfig config;
		config.SetOptionByName("allow_unsigned_extensions", Value::BOOLEAN(true));
		duckdb::DuckDB database(nullptr, &config);
		Connection connection(database);

		ExpectSuccess(connection, "LOAD " + Quoted(arguments[1]));
		auto rows = "SELECT range AS i, 's' || range % 10 AS s FROM range(100000)";
		ExpectValue(connection,
		            "COPY (" + std::string(rows) + ") TO " + Quoted(file) + " (FORMAT tlm, ROWS_PER_BLOCK 10000)",
		            "100000");
		auto source = "read_tlm(" + Quoted(file) + ")";
		ExpectValue(connection, "SELECT count(*) FROM " + source, "100000");
		ExpectValue(connection, "SELECT sum(i) FROM " + source + " WHERE i >= 99000 AND s = 's7'", "9950200");
		ExpectValue(connection, "SELECT max(i) FROM " + source + " WHERE contains(s, '3')", "99993");
		ExpectValue(connection, "SELECT min(i) FROM " + source + " WHERE i > 90000",
		            "90001"); // blocks are whole vectors: 10,240 rows
		ExpectValue(connection, "SELECT sum(skipped) FROM pensieve_last_scan() WHERE unit = 'block'", "8");

		// errors of binding, of reading and of a value computed in the middle of a scan
		ExpectError(connection, "FROM read_tlm('/nonexistent/x.tlm')", ExceptionType::IO, "x.tlm");
		ExpectError(connection, "SELECT nope FROM " + source, ExceptionType::BINDER, "nope");
		ExpectError(connection, "SELECT error('mine') FROM " + source + " WHERE i = 50000",
		            ExceptionType::INVALID_INPUT, "mine");
		ExpectError(connection, "COPY (SELECT 1) TO " + Quoted(file) + " (FORMAT tlm, COMPRESSION 'gzip')",
		            ExceptionType::INVALID_INPUT, "gzip");
		ExpectSuccess(connection, "COPY (SELECT content[1:1000] AS b FROM read_blob(" + Quoted(file) + ")) TO " +
		                              Quoted(cut) + " (FORMAT blob)");
		ExpectError(connection, "FROM read_tlm(" + Quoted(cut) + ")", ExceptionType::INVALID_INPUT, "cut.tlm");
		ExpectValue(connection, "SELECT count(*) FROM " + source, "100000");
	}
	std::remove(file.c_str());
	std::remove(cut.c_str());
	std::remove(directory);
	std::printf("%d passed, %d failed\n", passed, failed);
	return failed ? 1 : 0;
}
