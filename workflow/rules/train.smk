rule train:
    input:
        layout.FINGERPRINT,
    output:
        directory(CELL.best),
        CELL.curve,
        CELL.train,
    log:
        CELL.log("train"),
    conda:
        "../envs/mujax-pipe.yaml"
    threads: PARAMS.run.threads
    resources:
        mem_mb=2500,
        runtime=240,
    params:
        settings=lambda cell: PARAMS.train_settings(
            PARAMS.cell(cell.algo, cell.env, int(cell.seed))
        ),
    shell:
        "mujax-pipe cell train {wildcards.algo} {wildcards.env} {wildcards.seed} > {log} 2>&1"
