-- A store of schema 2 that commit f3c1bac upgraded to schema 6, dumped with sqlite3. Released schemas never change.
PRAGMA user_version = 6;
PRAGMA application_id = 1380209238;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE attempts (
  ref INTEGER NOT NULL,
  attempt_number INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  dns_ms REAL,
  connect_ms REAL,
  tls_ms REAL,
  first_byte_ms REAL,
  outcome TEXT NOT NULL,
  response_status INTEGER,
  error_class TEXT,
  error_message TEXT,
  next_delay_ms INTEGER,
  delay_source TEXT,
  response_headers TEXT,
  response_body BLOB,
  PRIMARY KEY (ref, attempt_number)
) STRICT, WITHOUT ROWID;
INSERT INTO "attempts" VALUES(1,1,1794887842933,299,NULL,47.0,NULL,125.0,'success',200,NULL,NULL,NULL,NULL,'{"content-type":"text/plain","date":"Tue, 17 Nov 2026 03:57:23 GMT"}',X'73746174757320323030');
INSERT INTO "attempts" VALUES(2,1,1794887843082,315,NULL,84.0,NULL,221.0,'success',200,NULL,NULL,NULL,NULL,'{"content-type":"text/plain","date":"Tue, 17 Nov 2026 03:57:23 GMT"}',X'73746174757320323030');
INSERT INTO "attempts" VALUES(3,1,1794887843185,228,NULL,163.0,NULL,64.0,'status',503,NULL,NULL,0,'policy','{"content-type":"text/plain","date":"Tue, 17 Nov 2026 03:57:23 GMT"}',X'73746174757320353033');
INSERT INTO "attempts" VALUES(3,2,1794887843498,82,NULL,NULL,NULL,32.0,'status',503,NULL,NULL,NULL,NULL,'{"content-type":"text/plain","date":"Tue, 17 Nov 2026 03:57:23 GMT"}',X'73746174757320353033');
CREATE TABLE counts (
  destination_id INTEGER NOT NULL,
  status INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (destination_id, status)
) STRICT, WITHOUT ROWID;
INSERT INTO "counts" VALUES(1,0,1);
INSERT INTO "counts" VALUES(2,0,1);
INSERT INTO "counts" VALUES(2,1,0);
INSERT INTO "counts" VALUES(2,2,2);
INSERT INTO "counts" VALUES(2,3,1);
INSERT INTO "counts" VALUES(2,4,1);
INSERT INTO "counts" VALUES(3,0,1);
CREATE TABLE destinations (
  destination_id INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  document TEXT,
  paused_at INTEGER,
  gate_until INTEGER NOT NULL,
  breaker_state TEXT NOT NULL,
  open_until INTEGER NOT NULL,
  open_count INTEGER NOT NULL,
  UNIQUE (tenant_id, name)
) STRICT;
INSERT INTO "destinations" VALUES(1,'default','paused',2,'{"concurrency":{"max":3}}',1794887842866,0,'CLOSED',0,0);
INSERT INTO "destinations" VALUES(2,'default','http://127.0.0.1:8765',0,NULL,NULL,0,'CLOSED',0,0);
INSERT INTO "destinations" VALUES(3,'other-tenant','http://127.0.0.1:8765',0,NULL,NULL,0,'CLOSED',0,0);
CREATE TABLE "documents" (
    kind TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (kind, tenant_id, id)
  ) STRICT, WITHOUT ROWID;
INSERT INTO "documents" VALUES('guards','default','http://127.0.0.1:8765',2,'{"version":1,"retryBudget":{"version":1,"kind":"RATIO","tokens":0,"window":{"windowMs":10000,"at":1794887843580,"counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,0,2,1]}},"breaker":null,"concurrency":{"version":1,"ramp":0,"algorithm":"AIMD","limit":16,"sampleAt":1794887843580,"samples":0,"drops":0,"rttSumMs":0,"peakInFlight":0,"longRttMs":0,"longSamples":0,"noLoadRttMs":0,"probeCount":0,"probeShare":0.9525},"rate":null,"adaptiveRate":null,"throttle":null,"latency":{"version":1,"at":1794887843580,"halfAt":1794887842905,"counts":{"size":576,"filled":[82,1,83,1]}}}');
INSERT INTO "documents" VALUES('redrive','default','01a1e7a6-fefe-7000-847a-edb481a80ddb',2,'{"job":{"redriveId":"01a1e7a6-fefe-7000-847a-edb481a80ddb","tenantId":"default","filter":{"destination":"nothing","finishedTo":1794887843583},"taskIds":null,"targets":null,"status":"DONE","ratePerSecond":10,"canary":0,"dryRun":false,"total":0,"redriven":0,"skipped":0,"skips":[],"createdAt":1794887843582,"finishedAt":1794887843977,"error":null},"runBy":"01a1e7a6-fb1b-7000-a4e4-a45b11f08043","runUntil":1794887858977}');
INSERT INTO "documents" VALUES('retry-budget','','whole',2,'{"version":1,"kind":"RATIO","tokens":0,"window":{"windowMs":10000,"at":1794887843580,"counts":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,0,2,1]}}');
CREATE TABLE idempotency_keys (
  tenant_id TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  task_id TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (tenant_id, idempotency_key)
) STRICT, WITHOUT ROWID;
INSERT INTO "idempotency_keys" VALUES('default','key-cancelled','01a1e7a6-fe55-7000-be7e-abae3b7ba59b','3ea008c7c19177be4e4b614482811231ea4f20665b5f0d907d824f5ee0d4bf30',1794974243477);
INSERT INTO "idempotency_keys" VALUES('default','key-dead','01a1e7a6-fd34-7000-83ec-052597fb1148','c32d826c518a44b76e1fcac6ecfc986123100a677e0b87cbcd97ca40b706b52d',1794974243580);
INSERT INTO "idempotency_keys" VALUES('default','key-later','01a1e7a6-fd73-7000-a789-4fbeeb29dde5','6a78dafd80494c651183243312e9da577b45dccbc058b5c900430e58832f3f26',NULL);
INSERT INTO "idempotency_keys" VALUES('default','key-ok','01a1e7a6-fc3d-7000-89bb-1a49f39178ef','4c9155e670edb8daa3fc7ab0b20c78e5972711a505cba35fffa9eb4f73cd38d8',1794974243350);
INSERT INTO "idempotency_keys" VALUES('default','key-ok2','01a1e7a6-fcb6-7000-8224-61917640b1a9','554da5b46fe59c43b33e66092d30c2ff4f415cf2e1e7e25dcff2896a78e2a45f',1794974243402);
INSERT INTO "idempotency_keys" VALUES('default','key-paused','01a1e7a6-fe2e-7000-8cda-daa8a62ebf16','29b851e6b76d7c7e747ec76abda1030e5978a2da104cfa045664a91c2680e896',NULL);
INSERT INTO "idempotency_keys" VALUES('other-tenant','key-ok','01a1e7a6-fedb-7000-a3cc-f8c5ce0ef475','7c58b715a7460c82144919a37beb701368af42a43cee344fca383c180a7354da',NULL);
CREATE TABLE key_sweeps (
    status INTEGER PRIMARY KEY,
    finished_at INTEGER NOT NULL,
    ref INTEGER NOT NULL
  ) STRICT;
INSERT INTO "key_sweeps" VALUES(2,1794887843402,0);
INSERT INTO "key_sweeps" VALUES(3,1794887843580,0);
INSERT INTO "key_sweeps" VALUES(4,1794887843477,0);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('commit',2);
INSERT INTO "meta" VALUES('file_id',12382980078443);
INSERT INTO "meta" VALUES('now',1794887842664);
INSERT INTO "meta" VALUES('open',0);
CREATE TABLE nodes (
  node_number INTEGER PRIMARY KEY,
  node_id TEXT NOT NULL UNIQUE,
  lease_until INTEGER NOT NULL
) STRICT;
INSERT INTO "nodes" VALUES(1,'01a1e7a6-fb1b-7000-a4e4-a45b11f08043',0);
CREATE TABLE payloads (
  ref INTEGER PRIMARY KEY,
  created_at INTEGER NOT NULL,
  scheduled_at INTEGER NOT NULL,
  deadline_at INTEGER,
  idempotency_key TEXT,
  target_url TEXT NOT NULL,
  method TEXT NOT NULL,
  headers TEXT NOT NULL,
  policy_id TEXT NOT NULL,
  policy_version INTEGER NOT NULL,
  idempotent INTEGER NOT NULL,
  labels TEXT NOT NULL,
  callback_url TEXT,
  redriven_from TEXT,
  body_ref TEXT,
  body BLOB
) STRICT;
INSERT INTO "payloads" VALUES(1,1794887842877,1794887842877,NULL,'key-ok','http://127.0.0.1:8765/ok','POST','{"x-a":"1"}','mine',1,1,'{"kind":"order"}',NULL,NULL,NULL,X'626F6479206F6620612073756363657373');
INSERT INTO "payloads" VALUES(2,1794887842998,1794887842998,NULL,'key-ok2','http://127.0.0.1:8765/ok2','POST','{}','background',1,1,'{}',NULL,NULL,NULL,X'00FF01');
INSERT INTO "payloads" VALUES(3,1794887843124,1794887843124,NULL,'key-dead','http://127.0.0.1:8765/fail','POST','{}','inline.a5bc65102a85bdb48cbf72df7d320449dbefca23',1,1,'{}',NULL,NULL,NULL,X'64656164');
INSERT INTO "payloads" VALUES(4,1794887843187,1820807842877,NULL,'key-later','http://127.0.0.1:8765/later','POST','{}','background',1,1,'{}',NULL,NULL,NULL,X'6C61746572');
INSERT INTO "payloads" VALUES(5,1794887843374,1794887843374,NULL,'key-paused','http://127.0.0.1:8765/paused','POST','{}','background',1,1,'{}',NULL,NULL,NULL,NULL);
INSERT INTO "payloads" VALUES(6,1794887843413,1820807842877,NULL,'key-cancelled','http://127.0.0.1:8765/cancel','POST','{}','background',1,1,'{}',NULL,NULL,NULL,NULL);
INSERT INTO "payloads" VALUES(7,1794887843547,1820807842877,NULL,'key-ok','http://127.0.0.1:8765/other','POST','{}','background',1,1,'{}',NULL,NULL,NULL,NULL);
CREATE TABLE policies (
  tenant_id TEXT NOT NULL,
  policy_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  document TEXT NOT NULL,
  created_at INTEGER NOT NULL, removed_at INTEGER,
  PRIMARY KEY (tenant_id, policy_id, version)
) STRICT, WITHOUT ROWID;
INSERT INTO "policies" VALUES('default','background',1,'{"policyId":"background","description":"Work that nobody waits for; the service''s default. Ceilings triple from 1 s and reach 1 h at the ninth wait. At least 1 h 57 min pass before the twelfth attempt, as no wait is below half its ceiling. 24 h leave time for holds and Retry-After.","maxAttempts":12,"initialDelayMs":1000,"multiplier":3,"maxDelayMs":3600000,"jitterType":"EQUAL","totalBudgetMs":86400000,"attemptTimeoutMs":30000}',1794887842975,NULL);
INSERT INTO "policies" VALUES('default','inline.a5bc65102a85bdb48cbf72df7d320449dbefca23',1,'{"maxAttempts":2,"initialDelayMs":1,"maxDelayMs":2,"attemptTimeoutMs":1000}',1794887843093,NULL);
INSERT INTO "policies" VALUES('default','mine',1,'{"policyId":"mine","maxAttempts":3}',1794887842758,NULL);
INSERT INTO "policies" VALUES('other-tenant','background',1,'{"policyId":"background","description":"Work that nobody waits for; the service''s default. Ceilings triple from 1 s and reach 1 h at the ninth wait. At least 1 h 57 min pass before the twelfth attempt, as no wait is below half its ceiling. 24 h leave time for holds and Retry-After.","maxAttempts":12,"initialDelayMs":1000,"multiplier":3,"maxDelayMs":3600000,"jitterType":"EQUAL","totalBudgetMs":86400000,"attemptTimeoutMs":30000}',1794887843501,NULL);
CREATE TABLE task_terms (
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  task_id TEXT NOT NULL,
  ref INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name, value, task_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "task_terms" VALUES('default','kind','order','01a1e7a6-fc3d-7000-89bb-1a49f39178ef',1);
CREATE TABLE tasks (
  ref INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  destination_id INTEGER NOT NULL,
  status INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  next_attempt_at INTEGER NOT NULL,
  attempt_number INTEGER NOT NULL,
  claim_epoch INTEGER NOT NULL,
  claimed_by INTEGER,
  claimed_at INTEGER,
  last_delay_ms INTEGER NOT NULL,
  abandoned_count INTEGER NOT NULL,
  cancel_requested_at INTEGER,
  reason TEXT,
  last_status INTEGER,
  last_error TEXT,
  redriven_to TEXT,
  finished_at INTEGER,
  UNIQUE (tenant_id, task_id)
) STRICT;
INSERT INTO "tasks" VALUES(1,'default','01a1e7a6-fc3d-7000-89bb-1a49f39178ef',2,2,1,1794887842877,1,2,NULL,NULL,0,0,NULL,'succeeded',200,NULL,NULL,1794887843350);
INSERT INTO "tasks" VALUES(2,'default','01a1e7a6-fcb6-7000-8224-61917640b1a9',2,2,1,1794887842998,1,2,NULL,NULL,0,0,NULL,'succeeded',200,NULL,NULL,1794887843402);
INSERT INTO "tasks" VALUES(3,'default','01a1e7a6-fd34-7000-83ec-052597fb1148',2,3,1,1794887843414,2,4,NULL,NULL,0,0,NULL,'attempts',503,NULL,NULL,1794887843580);
INSERT INTO "tasks" VALUES(4,'default','01a1e7a6-fd73-7000-a789-4fbeeb29dde5',2,0,0,1820807842877,0,0,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "tasks" VALUES(5,'default','01a1e7a6-fe2e-7000-8cda-daa8a62ebf16',1,0,0,1794887843374,0,0,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "tasks" VALUES(6,'default','01a1e7a6-fe55-7000-be7e-abae3b7ba59b',2,4,0,1820807842877,0,0,NULL,NULL,0,0,NULL,'aborted',NULL,NULL,NULL,1794887843477);
INSERT INTO "tasks" VALUES(7,'other-tenant','01a1e7a6-fedb-7000-a3cc-f8c5ce0ef475',3,0,0,1820807842877,0,0,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE INDEX tasks_due ON tasks (destination_id, lane, next_attempt_at) WHERE status = 0;
CREATE INDEX tasks_claimed ON tasks (claimed_by) WHERE status = 1;
CREATE INDEX tasks_finished ON tasks (status, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX tasks_dead ON tasks (tenant_id, task_id) WHERE status = 3;
CREATE INDEX keys_expiry ON idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX tasks_open ON tasks (tenant_id, task_id, finished_at) WHERE finished_at IS NULL;
CREATE INDEX tasks_canceled ON tasks (tenant_id, task_id) WHERE status = 4;
CREATE INDEX tasks_of_destination ON tasks (destination_id, task_id);
CREATE INDEX tasks_dead_of_destination ON tasks (destination_id, task_id) WHERE status = 3;
CREATE INDEX tasks_dead_reason ON tasks (tenant_id, reason, task_id) WHERE status = 3;
CREATE TRIGGER labels_added AFTER INSERT ON payloads WHEN new.labels <> '{}'
BEGIN INSERT OR IGNORE INTO task_terms 
  SELECT t.tenant_id, l.key AS name, l.value, t.task_id, t.ref
  FROM tasks t, json_each(new.labels) l WHERE t.ref = new.ref; END;
CREATE TRIGGER labels_removed BEFORE DELETE ON payloads WHEN old.labels <> '{}'
BEGIN
  DELETE FROM task_terms WHERE (tenant_id, name, value, task_id) IN
    (SELECT tenant_id, name, value, task_id FROM (
  SELECT t.tenant_id, l.key AS name, l.value, t.task_id, t.ref
  FROM tasks t, json_each(old.labels) l WHERE t.ref = old.ref));
END;
CREATE TRIGGER key_of_other_task_added AFTER INSERT ON payloads WHEN new.idempotency_key IS NOT NULL
BEGIN INSERT OR IGNORE INTO task_terms SELECT t.tenant_id, '', p.idempotency_key, t.task_id, t.ref
  FROM tasks t JOIN payloads p ON p.ref = t.ref
  WHERE p.idempotency_key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.tenant_id = t.tenant_id
  AND k.idempotency_key = p.idempotency_key AND k.task_id = t.task_id) AND p.ref = new.ref; END;
CREATE TRIGGER key_of_other_task_removed BEFORE DELETE ON payloads
WHEN old.idempotency_key IS NOT NULL
BEGIN
  DELETE FROM task_terms WHERE name = '' AND value = old.idempotency_key AND
    (tenant_id, task_id) = (SELECT t.tenant_id, t.task_id FROM tasks t WHERE t.ref = old.ref);
END;
CREATE TRIGGER key_expired AFTER DELETE ON idempotency_keys
BEGIN
  INSERT OR IGNORE INTO task_terms
    SELECT t.tenant_id, '', old.idempotency_key, t.task_id, t.ref FROM tasks t
    WHERE t.tenant_id = old.tenant_id AND t.task_id = old.task_id;
END;
CREATE INDEX payloads_inline ON payloads (policy_id)
    WHERE policy_id >= 'inline.' AND policy_id < 'inline/';
CREATE INDEX destinations_open ON destinations (tenant_id, name) WHERE breaker_state <> 'CLOSED';
COMMIT;
